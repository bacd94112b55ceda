"""Criteria: one small file each, and MENU, a plain dictionary."""

from selfnorm.criteria.menu import MENU, Criterion, Loss, entry, make_criterion

__all__ = ["MENU", "Criterion", "Loss", "entry", "make_criterion"]
