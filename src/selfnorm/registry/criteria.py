"""The criteria by name: what the literature calls them, what they do to log Z, and which class computes them."""

from __future__ import annotations

from dataclasses import dataclass

from selfnorm.registry import Registry


@dataclass(frozen=True)
class CriterionInfo:
    """pins: does the loss change when a constant is added to every score of a context?

    yes         log Z is pulled to 0
    constant    log Z settles at an unknown constant, which `shift` removes
    no          log Z may be anything: scoring without it is wrong by an arbitrary amount per context
    normalized  log Z is 0 by construction
    """

    title: str  # the name in the literature
    pins: str
    fit: str  # the class that computes the fit
    alpha: float = 0.0  # used where the recipe gives none
    gamma: float = 1.0
    penalty: str = "exact"
    subset: str = "contexts"
    alone: str = "yes"  # what the fit without its penalty does to log Z
    draws: bool = False  # noise words, k of them
    from_batch: bool = False  # noise words are the other targets of the batch
    output: str = "full"  # the output layer it needs: full, classes or adaptive
    normalizer: bool = False  # a network trained together with the model
    recovers: bool = False  # its m is not log p until it is recovered after training
    normalizes: float = 0.0  # the share of contexts whose log Z a training step computes, for time estimates

    def __post_init__(self) -> None:
        if self.pins not in ("yes", "constant", "no", "normalized"):
            raise ValueError(f'pins = "{self.pins}": yes, constant, no or normalized was expected')


_NCE = "selfnorm.criteria.nce:Nce"
_SOFTMAX = "selfnorm.criteria.softmax:Softmax"

CRITERIA: Registry[CriterionInfo] = Registry("criterion", {
    "softmax": CriterionInfo("SM-LM", "no", _SOFTMAX, alone="no", normalizes=1.0),
    "devlin": CriterionInfo("DEV-LM", "yes", _SOFTMAX, alone="no", alpha=1.0, normalizes=1.0),
    "devlin_learned": CriterionInfo(
        "DEV-LM, learned normalizer", "yes", _SOFTMAX, alone="no", alpha=1.0, normalizes=1.0, normalizer=True),
    "andreas": CriterionInfo(
        "AND-LM", "constant", "selfnorm.criteria.andreas:Score", alone="", alpha=1.0, gamma=0.1, normalizes=0.1),
    "nce": CriterionInfo("NCE-LM", "yes", _NCE, draws=True),
    "nce_r": CriterionInfo(
        "NCE-R-LM", "yes", _NCE, alpha=10.0, gamma=0.1, subset="windows", normalizes=0.1, draws=True),
    "nce_s": CriterionInfo("NCE, sampled penalty", "yes", _NCE, alpha=0.1, penalty="sampled", draws=True),
    "nce_batch": CriterionInfo("batch NCE", "yes", "selfnorm.criteria.nce_batch:BatchNce", from_batch=True),
    "nce_learned": CriterionInfo("NCE, learned normalizer", "yes", _NCE, draws=True, normalizer=True),
    "negative": CriterionInfo("PMI-LM", "yes", "selfnorm.criteria.negative:Negative", draws=True, recovers=True),
    "linear_bound": CriterionInfo("linear bound", "yes", "selfnorm.criteria.linear_bound:LinearBound", draws=True),
    "snis": CriterionInfo(
        "self-normalized importance sampling", "yes", "selfnorm.criteria.snis:SelfNormalizedImportance",
        draws=True, recovers=True),
    "infrequent": CriterionInfo(
        "infrequent normalization", "yes", "selfnorm.criteria.infrequent:Infrequent",
        alone="no", alpha=1.0, gamma=0.1, penalty="none", normalizes=0.1),
    "z_loss": CriterionInfo("z-loss", "yes", _SOFTMAX, alone="no", alpha=1e-4, normalizes=1.0),
    "variance": CriterionInfo(
        "variance regularization", "constant", _SOFTMAX, alone="no", alpha=0.1, penalty="variance", normalizes=1.0),
    "importance": CriterionInfo(
        "importance sampling", "no", "selfnorm.criteria.importance:Importance", alone="no", draws=True),
    "sampled_softmax": CriterionInfo(
        "sampled softmax", "no", "selfnorm.criteria.sampled_softmax:SampledSoftmax", alone="no", draws=True),
    "ranking": CriterionInfo("ranking NCE", "no", "selfnorm.criteria.ranking:Ranking", alone="no", draws=True),
    "blackout": CriterionInfo("BlackOut", "no", "selfnorm.criteria.blackout:BlackOut", alone="no", draws=True),
    "adaptive": CriterionInfo("adaptive softmax", "normalized", _SOFTMAX, output="adaptive", normalizes=0.2),
    "classes": CriterionInfo("class softmax", "normalized", _SOFTMAX, output="classes", normalizes=0.02),
})  # fmt: skip


def label(criterion: str) -> str:
    """The name in the literature; the name itself where there is no such criterion."""
    return CRITERIA[criterion].title if criterion in CRITERIA else criterion
