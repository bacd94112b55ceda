"""Output layers that are normalized by construction, by the name the menu has for them."""

from selfnorm.normalized.adaptive import Adaptive
from selfnorm.normalized.classes import Classes
from selfnorm.normalized.shape import Normalized

KINDS: dict[str, type[Classes] | type[Adaptive]] = {"classes": Classes, "adaptive": Adaptive}

__all__ = ["KINDS", "Adaptive", "Classes", "Normalized"]
