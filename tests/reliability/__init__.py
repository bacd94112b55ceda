"""Crash, damage, disk-full, concurrency and fuzz tests. `test_reliability.py` runs a bounded part, `soak.py` as much as asked."""
