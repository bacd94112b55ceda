"""Scoring: sentences to scores, many hypotheses through one prefix trie, kenlm's interface, export to ONNX."""
