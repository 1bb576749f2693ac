"""The HTTP API: the door facts come through, and what programs read."""
