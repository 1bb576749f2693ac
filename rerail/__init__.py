"""rerail: what every restart of a training run cost, and why."""

__version__ = "0.1.0"
