"""What a criterion's settings amount to: its own defaults filled in, and what they do to log Z."""

from __future__ import annotations

from dataclasses import replace

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import CriterionSettings
from selfnorm.registry.criteria import CRITERIA


def settle(settings: CriterionSettings) -> CriterionSettings:
    """The settings with the criterion's own alpha, gamma and penalty where none was given.

    A penalty that was asked for must have a weight. A stored recipe says alpha = 0, which is an answer.
    """
    own = CRITERIA.find(settings.name)
    asked = [f"criterion.penalty={settings.penalty}"] * (settings.penalty not in ("", "none"))
    asked += [f"criterion.gamma={settings.gamma:g}"] * (0 <= settings.gamma < 1)
    if asked and settings.alpha < 0 and own.alpha == 0:
        possible = own.output == "full" and not own.recovers
        raise UserError(
            f"{' and '.join(asked)}: criterion {settings.name} "
            + (
                "has no penalty unless it is given a weight. Set criterion.alpha (to 0 for none), or leave"
                if possible
                else "takes no penalty. Leave"
            )
            + " this out."
        )
    return replace(
        settings,
        alpha=own.alpha if settings.alpha < 0 else settings.alpha,
        gamma=own.gamma if settings.gamma < 0 else settings.gamma,
        penalty=settings.penalty or own.penalty,
        subset=settings.subset or own.subset,
    )


def pins(settings: CriterionSettings) -> str:
    """What these settings do to log Z: the fit by itself, or the fit and a penalty that has a weight.

    A penalty on (log Z)², exact or sampled, pins it whatever the fit; one on its variance leaves a constant. A softmax
    whose penalty has no weight is a softmax, whatever its name.
    """
    chosen = settle(settings)
    own = CRITERIA[chosen.name]
    if own.pins == "normalized":
        return own.pins
    if chosen.name == "infrequent":  # its penalty is part of the fit
        return "yes" if chosen.alpha > 0 else "no"
    penalty = chosen.penalty if chosen.alpha > 0 else "none"
    if penalty in ("exact", "sampled"):
        return "constant" if chosen.name == "andreas" else "yes"
    return "constant" if penalty == "variance" and own.alone == "no" else own.alone
