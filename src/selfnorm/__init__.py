"""selfnorm: language models that need no softmax when they are used."""

__version__ = "0.2.0"
