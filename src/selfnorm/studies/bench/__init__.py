"""Benchmarks users can run too: interleaved, medians, ratios to the unavoidable cost."""
