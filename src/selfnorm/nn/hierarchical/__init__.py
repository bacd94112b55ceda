"""Output layers that are normalized by construction, by name."""

from selfnorm.nn.hierarchical.adaptive import Adaptive
from selfnorm.nn.hierarchical.base import Normalized
from selfnorm.nn.hierarchical.classes import Classes

KINDS: dict[str, type[Classes] | type[Adaptive]] = {"classes": Classes, "adaptive": Adaptive}

__all__ = ["KINDS", "Adaptive", "Classes", "Normalized"]
