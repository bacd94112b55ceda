"""Tasks: rescoring n-best lists, sentence completion, mixing with n-gram models."""
