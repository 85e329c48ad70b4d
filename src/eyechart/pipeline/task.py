"""What an evaluation is to do, and who is told how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from eyechart.core.arguments import as_flag, as_path, as_text, as_whole
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.humans.agreement import check_rule
from eyechart.humans.transfer import PUBLISHED
from eyechart.labels.categories import RULES
from eyechart.models.label_map import LabelMap
from eyechart.scores.scoring import Fit
from eyechart.testsets.plan import Plan

ENTRY16 = "entry16"
MAX_BATCH = 100_000
"""Images that are predicted at once, at most."""


@dataclass(frozen=True)
class Task:
    """What `evaluate` is to do, besides models and pictures.

    `rule`: how 1,000 classes become the 16 categories. `humans`: a reference's name or file,
    several of them in order of precedence, or None. `similar`: the classes within which human
    responses are transferred, see `find_classes`. `match_choices`: people who had another number of
    choices than 16 are compared all the same, both sides corrected for chance. `testset`: the path
    of a manifest to use instead of drawing one. `baseline`: whose errors CE divides by, see
    `choose_baseline`. `label_maps`: those that were offered to the models, each of which must be
    used.
    `clean_responses`: with which responses to the clean image humans' are compared for consistency,
    see `humans.agreement.RULES`; None: what the reference's data allow.
    """

    plan: Plan
    fit: Fit
    rule: str = "max"
    humans: str | Sequence[str] | None = "geirhos"
    testset: str | None = None
    batch: int | None = None
    match_choices: bool = False
    baseline: str = "auto"
    label_maps: tuple[LabelMap, ...] = ()
    clean_responses: str | None = None
    similar: str | Sequence[str] = PUBLISHED

    @property
    def human_names(self) -> tuple[str, ...]:
        """The human references that were asked for, in order of precedence."""
        if self.humans is None:
            return ()
        return (self.humans,) if isinstance(self.humans, str) else tuple(self.humans)

    def check(self) -> None:
        """Raise a UsageError unless this can be done."""
        self.plan.check()
        self.fit.check()
        if self.testset is not None and self.plan.pictures is not None:
            raise UsageError("A test set has its own pictures: leave out the number of pictures.")
        if as_text(self.rule, "rule") not in RULES:
            raise unknown_name("rule", self.rule, RULES)
        if self.clean_responses is not None:
            check_rule(as_text(self.clean_responses, "clean_responses"))
        if self.batch is not None:
            as_whole(self.batch, "batch", 1, MAX_BATCH)
        as_flag(self.match_choices, "match_choices")
        if self.testset is not None:
            as_path(self.testset, "testset", "the path of a file")
        if self.plan.sampling == "paper" and all(entry.at_levels for entry in self.plan.entries()):
            return
        need = int(self.fit.least * 2)
        if self.testset is None and self.plan.n < need:
            raise UsageError(
                f"n = {self.plan.n} is too small for curves: two bins of {self.fit.least:g} answers"
                f" need at least {need}; give a larger n or a smaller least."
            )
