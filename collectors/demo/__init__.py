"""The demonstration: real training with real faults, watched by the collectors."""
