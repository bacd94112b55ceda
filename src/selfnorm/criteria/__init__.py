"""Criteria: one file each. A criterion is a fit and a penalty; both are given the output layer."""
