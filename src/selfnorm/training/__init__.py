"""Training: the loop, the optimizer, checkpoints, and the trainer of a run."""
