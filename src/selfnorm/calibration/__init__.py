"""Calibration: learn log Z of a trained model from c and subtract it from every score. No retraining.

log Z can be computed exactly at any c, so it can be learnt from the model itself: no labels, no new text, and the exact
probabilities stay what they were. One file per kind; `registry/calibrations.py` lists them.
"""
