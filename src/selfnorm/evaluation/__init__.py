"""Evaluation: how normalized a model is, with intervals, and the paper's theorems where the truth is known."""
