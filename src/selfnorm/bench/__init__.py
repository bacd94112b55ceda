"""Benchmarks users can run too: interleaved, medians, ratios to the floor of what cannot be avoided."""
