"""Synthetic runs: facts of fleets that never were, to see how everything behaves at a size nobody has at hand.

`plans.py` says how large each run is, `faults.py` what goes wrong and what is printed then, `history.py` makes the
facts. Every run is deterministic: the same plan gives the same facts, whatever is made before or after it.
"""
