"""Sources: where each text comes from, one file each. A source gives lines for train, valid and test, and a fingerprint."""
