"""What an evaluation is to do, and who is told how far it is."""

from dataclasses import dataclass
from typing import Protocol

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.labels.categories import RULES
from eyechart.models.label_map import LabelMap
from eyechart.scores.scoring import Fit
from eyechart.testsets.drawing import Plan, Step

ENTRY16 = "entry16"


class Progress(Protocol):
    """How long work is followed: `begin(title, total)` gives a function told of each step."""

    def begin(self, title: str, total: int) -> Step:
        """Begin a part of the work with so many steps."""


class Silent:
    """Nobody is told."""

    def begin(self, title: str, total: int) -> Step:
        """Return a function that does nothing."""
        return lambda count, message: None


class Shared:
    """One step is told of many pieces of work."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def begin(self, title: str, total: int) -> Step:
        """Return the shared step."""
        return self.step


@dataclass(frozen=True)
class Task:
    """What `evaluate` is to do, besides models and pictures.

    `rule`: how 1,000 classes become the 16 categories. `humans`: a reference's name or file, or
    None. `match_choices`: people who had another number of choices than 16 are compared all the
    same, both sides corrected for chance. `testset`: the path of a manifest to use instead of
    drawing one. `baseline`: whose errors CE divides by, see `choose_baseline`.
    `label_maps`: those that were offered to the models, each of which must be used.
    """

    plan: Plan
    fit: Fit
    rule: str = "max"
    humans: str | None = "geirhos"
    testset: str | None = None
    batch: int | None = None
    match_choices: bool = False
    baseline: str = "auto"
    label_maps: tuple[LabelMap, ...] = ()

    def check(self) -> None:
        """Raise a UsageError unless this can be done."""
        self.plan.check()
        self.fit.check()
        if self.testset is not None and self.plan.pictures is not None:
            raise UsageError("A test set has its own pictures: leave out the number of pictures.")
        if self.rule not in RULES:
            raise unknown_name("rule", str(self.rule), RULES)
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch must be at least 1, got {self.batch}.")
        if self.plan.sampling == "paper" and all(entry.at_levels for entry in self.plan.entries()):
            return
        need = int(self.fit.least * 2)
        if self.testset is None and self.plan.n < need:
            raise UsageError(
                f"n = {self.plan.n} is too small for curves: two bins of {self.fit.least:g} answers"
                f" need at least {need}; give a larger n or a smaller least."
            )
