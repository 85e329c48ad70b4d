"""Published experiments with parametric conditions, and the human accuracy in each condition."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.csv_table import read_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import Registry
from eyechart.humans.placement import strength_of
from eyechart.rulers import conditions
from eyechart.rulers.conditions import Condition

CHANCE = 1 / 16
"""Accuracy of guessing: participants chose one of 16 categories."""

COLUMNS = ("experiment", "condition", "subj", "trials", "correct")

CITATION = (
    "Geirhos, Narayanappa, Mitzkus, Thieringer, Bethge, Wichmann, Brendel (2021): Partial success"
    " in closing the gap between human and machine vision. NeurIPS."
)


@dataclass(frozen=True)
class HumanExperiment:
    """One experiment: how its conditions change an image, and which condition is clean.

    Attributes:
        name: The name in tables of counts.
        condition: The function that regenerates a condition.
        parameters: The parameters of each condition, in the order of the experiment.
        clean: Experiment and condition whose accuracy counts as clean. An experiment without a
            clean condition uses that of a similar experiment.
        is_exact: Whether the published definition is known in full.
    """

    name: str
    condition: Condition
    parameters: Mapping[str, tuple[float, ...]]
    clean: tuple[str, str]
    is_exact: bool = True


def _numbers(*names: str) -> dict[str, tuple[float, ...]]:
    return {name: (strength_of(name),) for name in names}


def _eidolon(name: str, coherence: int) -> HumanExperiment:
    parameters = {
        f"{2**step}-{coherence}-10": (float(2**step), coherence / 10, 10.0) for step in range(8)
    }
    return HumanExperiment(name, conditions.eidolon, parameters, CLEAN_GRAY, is_exact=False)


CLEAN_GRAY = ("contrast", "c100")
"""Clean gray images, in the same series of experiments as noise and eidolons."""

_EXPERIMENTS = (
    HumanExperiment(
        "contrast",
        conditions.contrast,
        _numbers("c100", "c50", "c30", "c15", "c10", "c05", "c03", "c01"),
        CLEAN_GRAY,
    ),
    HumanExperiment(
        "low-pass",
        conditions.low_pass,
        _numbers("0", "1", "3", "5", "7", "10", "15", "40"),
        ("low-pass", "0"),
    ),
    HumanExperiment(
        "high-pass",
        conditions.high_pass,
        _numbers("inf", "3", "1.5", "1", "0.7", "0.55", "0.45", "0.4"),
        ("high-pass", "inf"),
    ),
    HumanExperiment(
        "uniform-noise",
        conditions.uniform_noise,
        _numbers("0.00", "0.03", "0.05", "0.10", "0.20", "0.35", "0.60", "0.90"),
        # its weakest condition already has a contrast of 30 %, at which both experiments agree
        CLEAN_GRAY,
    ),
    HumanExperiment(
        "phase-scrambling",
        conditions.phase_scrambling,
        _numbers("0", "30", "60", "90", "120", "150", "180"),
        ("phase-scrambling", "0"),
    ),
    HumanExperiment(
        "rotation", conditions.rotation, _numbers("0", "90", "180", "270"), ("rotation", "0")
    ),
    HumanExperiment(
        "power-equalisation",
        conditions.power_equalisation,
        {"0": (0.0,), "pow": (1.0,)},
        ("power-equalisation", "0"),
    ),
    _eidolon("eidolonI", 10),
    _eidolon("eidolonII", 3),
    _eidolon("eidolonIII", 0),
)

EXPERIMENTS: Registry[HumanExperiment] = Registry("experiment")
"""The experiments that can be regenerated, by name."""

for _experiment in _EXPERIMENTS:
    EXPERIMENTS.add(_experiment.name, _experiment)

MAIN = tuple(one.name for one in _EXPERIMENTS[:6])
"""The experiments of the study's main table: several conditions each, with known definitions."""


@dataclass(frozen=True, eq=False)
class HumanConditions:
    """Human accuracy over the conditions of several experiments, by observer.

    Attributes:
        experiments: The experiment of each condition.
        names: The name of each condition.
        correct: The number of correct responses, (conditions, observers); 0 for observers of other
            experiments.
        trials: The number of trials, likewise.
        clean_correct: Correct responses to the clean images of each condition's experiment.
        clean_trials: The number of these trials.
    """

    experiments: tuple[str, ...]
    names: tuple[str, ...]
    correct: FloatArray
    trials: FloatArray
    clean_correct: FloatArray
    clean_trials: FloatArray

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_observers(self) -> int:
        """The number of observers, each in one experiment."""
        return int(self.correct.shape[1])

    def accuracy(self, weights: FloatArray | None = None) -> FloatArray:
        """Return the fraction of correct responses in each condition.

        `weights`: how often each observer counts; (observers,).
        """
        return _share(self.correct, self.trials, weights)

    def rescaled(self, weights: FloatArray | None = None) -> FloatArray:
        """Return (a − 1/16) / (a_clean − 1/16) for the accuracy a of each condition."""
        clean = _share(self.clean_correct, self.clean_trials, weights)
        return (self.accuracy(weights) - CHANCE) / (clean - CHANCE)

    def select(self, experiments: Iterable[str]) -> tuple["HumanConditions", IntArray]:
        """Return the conditions of these experiments, and their indices."""
        indices = np.flatnonzero(np.isin(self.experiments, list(experiments)))
        rows = (self.correct, self.trials, self.clean_correct, self.clean_trials)
        chosen = HumanConditions(
            tuple(self.experiments[index] for index in indices),
            tuple(self.names[index] for index in indices),
            *(array[indices] for array in rows),
        )
        return chosen, indices


def read_counts(path: Path, experiments: Sequence[str] = MAIN) -> HumanConditions:
    """Return human accuracy from a CSV file with one row per experiment, condition and observer.

    Args:
        path: A file with the columns experiment, condition, subj, trials and correct.
        experiments: The experiments to read, all of whose conditions must be in the file.

    Raises:
        UsageError: If a condition is missing, or a count is not possible.
    """
    correct: Counter[tuple[str, str, str]] = Counter()
    trials: Counter[tuple[str, str, str]] = Counter()
    for row in read_rows(path, COLUMNS):
        key = row.filled("experiment"), row.filled("condition"), row.filled("subj")
        if row.whole("correct") > row.whole("trials"):
            raise row.rejection("correct must not exceed trials")
        correct[key] += row.whole("correct")
        trials[key] += row.whole("trials")
    chosen = [EXPERIMENTS[name] for name in experiments]
    wanted = [(one, name) for one in chosen for name in one.parameters]
    keys = [(one.name, name) for one, name in wanted]
    clean = [one.clean for one, _ in wanted]
    needed = {*keys, *clean}
    missing = sorted(needed - {key[:2] for key, count in trials.items() if count})
    if missing:
        experiment, name = missing[0]
        raise UsageError(
            f"{path} must have trials of experiment {experiment}, condition {name}: add its rows,"
            " or choose other experiments with --experiment."
        )
    # an observer's number restarts in each experiment
    observers = sorted({(key[0], key[2]) for key in trials if key[:2] in needed})

    def table(counts: Counter[tuple[str, str, str]], rows: list[tuple[str, str]]) -> FloatArray:
        return np.array(
            [
                [counts[(*row, subject)] if row[0] == experiment else 0
                 for experiment, subject in observers]
                for row in rows
            ],
            dtype=np.float64,
        )  # fmt: skip

    return HumanConditions(
        tuple(key[0] for key in keys),
        tuple(key[1] for key in keys),
        table(correct, keys),
        table(trials, keys),
        table(correct, clean),
        table(trials, clean),
    )


def _share(correct: FloatArray, trials: FloatArray, weights: FloatArray | None) -> FloatArray:
    if weights is None:
        weights = np.ones(correct.shape[1])
    return np.asarray((correct @ weights) / (trials @ weights))
