"""The pure core: facts in, figures out. Standard library only; no I/O, no clock, no environment."""
