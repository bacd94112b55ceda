"""Language models of the transformers library: audit their log Z, train them with a z-loss, score and rescore with them.

transformers is an optional library (extra "hf"). It is imported where a model is opened, not with this package.
"""
