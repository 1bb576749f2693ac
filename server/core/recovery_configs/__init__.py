"""Recovery configs: the knobs that decide what an interruption costs, whatever launcher they were told to.

`knobs.py` names them, `dialects.py` knows how launchers spell them, `release_defaults.py` what holds where nothing is
said, `normalising.py` puts these together, `nesting.py` checks the order of time-outs, `settings_text.py` reads
settings out of files, `stretches.py` says how long a run trained under which config and what that cost, `changes.py`
what changed from one to the next, `change_actions.py` what people say of a change.
"""
