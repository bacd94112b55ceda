"""n-best lists: one file per format, each reads and writes it."""
