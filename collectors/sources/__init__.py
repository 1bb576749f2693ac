"""Sources: what is polled for facts, one file for each kind."""
