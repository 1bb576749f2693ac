"""Pages: one file each, with the question it answers in its first line."""
