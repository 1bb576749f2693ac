"""Comparison: which recovery config is better, and is it really?

`arms.py` says what one side is made of, `pairing.py` which faults of two sides are the same fault, `likeness.py`
whether they may be compared at all, `resampling.py` how sure the figures are, `comparing.py` puts these together, and
`article.py` holds a published benchmark as a reference.
"""
