"""Search: what can be found, what a question asks for, and where in a text its words stand. Pure.

- `words.py`: text to the words that both databases index, Korean, Japanese and Chinese alike.
- `query.py`: what somebody typed to a question, or to what is wrong with which word of it.
- `documents.py`: incidents, fault traces, problems, nodes, runs, notes and config changes to what is found of them.
- `snippets.py`: the part of a text around the words that were looked for.
"""
