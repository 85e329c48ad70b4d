"""Declarations of all scores: name, meaning, required data, and path in results.json.

Tables, reports, files, gates and docs read `SCORES`; the formulas are in separate modules.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eyechart.predictions.reading import Predictions
from eyechart.scores.statistic import (
    Statistic,
    estimate_statistics,
    expected_calibration_error,
    top5_accuracy,
)
from eyechart.stats.estimate import Estimate

LABELS, HUMANS, BASELINE, CLEAN = "labels", "humans", "baseline", "clean images"
"""Data that a score may need: image labels, a human curve, a baseline's errors, clean images."""

PROPERTIES = {"a": "accuracy", "p": "consistency"}
"""The two properties, by the letter in the names of their scores: R_a, R_p."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Declaration of one score.

    Attributes:
        name: Name in files, options and Python: "r_a".
        title: Name in plain text: "R_a".
        symbol: Name on pages and in sentences: "Rₐ".
        meaning: One-line description.
        group: Group that the score belongs to; leaderboards show errors before curve scores.
        needs: Data that the score requires.
        higher_is_better: Whether higher values are better.
        unit: "share" for values in [0, 1], "percent" for values printed in percent.
        of_test: Whether there is one value per test, such as clean accuracy. Other scores have one
            value per corruption, and their mean over corruptions is the score of the test.
        mean: Name of the score that is its mean over corruptions, if that has a separate name.
        letter: Letter of its property, "a" or "p"; "" for neither.
        record: Path of the score in the record of a corruption.
        compute: Function that returns the score from the labeled predictions under a corruption; it
            is stored under `computed_scores`. None for scores with a dedicated field.
        bounds: Path of the score's bounds in that record; () if it has no bounds.
        has_narrow_interval: Whether results.csv also contains its 83 % interval.
        has_mean: Whether its mean over corruptions is a score of the test.
        is_main: Whether the terminal shows the score and tests of retraining use it. Files, the
            report and the gate include every score.
        can_gate: Whether `--fail-under` accepts the score.
        is_dark_when_high: Whether the report's tables shade high values dark; by default the worst
            values are dark.
        short: Title where space is scarce.
        axis: Title of a chart axis that shows the score.
        predicate: Predicate of a sentence about a model's mean over corruptions. Placeholders are
            {value}, {corruptions} (the number of corruptions) and, for baseline-relative scores,
            {baseline}.
        latex: Title in LaTeX.
    """

    name: str
    title: str
    symbol: str
    meaning: str
    group: Literal["clean", "curve", "break", "error", "prediction"]
    needs: tuple[str, ...] = ()
    higher_is_better: bool = True
    unit: Literal["share", "percent"] = "share"
    of_test: bool = False
    mean: str = ""
    letter: str = ""
    record: tuple[str, ...] = ()
    compute: Callable[[Predictions], Statistic | None] | None = None
    bounds: tuple[str, ...] = ()
    has_narrow_interval: bool = False
    has_mean: bool = True
    is_main: bool = True
    can_gate: bool = False
    is_dark_when_high: bool = False
    short: str = ""
    axis: str = ""
    predicate: str = ""
    latex: str = ""

    @property
    def is_percent(self) -> bool:
        """Whether the score is printed in percent."""
        return self.unit == "percent"

    @property
    def scale(self) -> float:
        """Factor that converts the stored value to the printed value."""
        return 100 if self.is_percent else 1

    @property
    def decimals(self) -> int:
        """Number of printed decimals."""
        return 1 if self.is_percent else 3

    def text(self, value: float, *, is_short: bool = False, is_signed: bool = False) -> str:
        """Return a value in its printed form, without a unit.

        Args:
            value: The stored value.
            is_short: Whether to print fewer decimals.
            is_signed: Whether to print a plus sign, as for a difference.

        Example:
            >>> SCORES["r_a"].text(0.62349), SCORES["mce"].text(0.62349)
            ('0.623', '62.3')
        """
        decimals = self.decimals - 1 if is_short else self.decimals
        # Format option z removes the minus sign of values that round to 0.
        return f"{self.scale * value:{'+' if is_signed else ''}z.{decimals}f}"

    @property
    def column(self) -> str:
        """Column in results.csv, which has one line per property: "r" for "r_a"."""
        # Accuracy and consistency share columns; the column "property" distinguishes them.
        return self.name.removesuffix(f"_{self.letter}") if self.letter else self.name

    @property
    def overall_path(self) -> tuple[str, ...]:
        """Path of the test's score within a label space of results.json."""
        if not self.of_test:
            return ("means", self.name)
        # Scores relative to a baseline are stored together with its name.
        return ("corruption_error", self.name) if BASELINE in self.needs else (self.name,)

    def path(self, corruption: str) -> tuple[str, ...]:
        """Return the path of a corruption's score within a label space of results.json."""
        if BASELINE in self.needs:
            return ("corruption_error", self.name, corruption)
        return ("corruptions", corruption, *self.record)


AREA_PREDICATES = {
    "a": "is correct",
    "p": "is consistent with its prediction for the clean image",
}


def _area(letter: str, symbol: str, meaning: str) -> Score:
    return Score(
        name=f"r_{letter}",
        title=f"R_{letter}",
        symbol=symbol,
        meaning=meaning,
        group="curve",
        needs=(CLEAN, LABELS) if letter == "a" else (CLEAN,),
        letter=letter,
        record=(PROPERTIES[letter], "robustness"),
        bounds=(PROPERTIES[letter], "bounds"),
        has_narrow_interval=True,
        can_gate=True,
        axis=f"{symbol}: {PROPERTIES[letter]} averaged over visual change",
        predicate=f"{AREA_PREDICATES[letter]} for {{value}} of corrupted images (mean"
        f" {symbol} over {{corruptions}})",
        latex=rf"$\hat{{\mathcal{{R}}}}_{letter}$",
    )


def _human_index(kind: str, letter: str, symbol: str, meaning: str) -> Score:
    return Score(
        name=f"{kind}_{letter}",
        title=f"{kind.upper()}_{letter}",
        symbol=symbol,
        meaning=meaning,
        group="curve",
        needs=(CLEAN, HUMANS, LABELS) if letter == "a" else (CLEAN, HUMANS),
        letter=letter,
        record=(PROPERTIES[letter], "humans", kind),
        bounds=(PROPERTIES[letter], "humans", "hmri_bounds") if kind == "hmri" else (),
        can_gate=True,
        # MRSI is 0 for most models: shading the worst dark would shade nearly the whole table.
        is_dark_when_high=kind == "mrsi",
        latex=kind.upper(),
    )


def _break_point(letter: str, symbol: str, meaning: str) -> Score:
    return Score(
        name=f"dv50_{letter}",
        title=f"Δv50_{letter}",
        symbol=symbol,
        meaning=meaning,
        group="break",
        needs=(CLEAN, LABELS) if letter == "a" else (CLEAN,),
        letter=letter,
        record=(PROPERTIES[letter], "break_point"),
        # A corruption at which a model does not break has no value to average.
        has_mean=False,
        # The table of a model has one column for it; the files have both.
        is_main=letter == "a",
        axis=f"{symbol}: visual change at which {PROPERTIES[letter]} breaks",
        latex=r"$\Delta v_{50}$",
    )


DECLARED = (
    Score(
        name="clean_accuracy",
        title="clean accuracy",
        symbol="Clean accuracy",
        meaning="accuracy on clean images",
        group="clean",
        needs=(CLEAN, LABELS),
        of_test=True,
        can_gate=True,
    ),
    _area("a", "Rₐ", "accuracy averaged over visual changes from 0 to 1"),
    _area(
        "p", "Rₚ",
        "fraction of predictions equal to the clean prediction, averaged over visual changes",
    ),
    _human_index(
        "hmri", "a", "HMRIₐ",
        "fraction of human accuracy that the model reaches; 1: never behind humans",
    ),
    _human_index(
        "mrsi", "a", "MRSIₐ",
        "fraction of the model’s accuracy that exceeds human accuracy; 0: never ahead",
    ),
    _human_index(
        "hmri", "p", "HMRIₚ",
        "like HMRI_a, for predictions equal to the one for the clean image",
    ),
    _human_index(
        "mrsi", "p", "MRSIₚ",
        "like MRSI_a, for predictions equal to the one for the clean image",
    ),
    Score(
        name="error",
        title="error",
        symbol="Error",
        meaning="error rate on corrupted images; lower is better",
        group="error",
        needs=(LABELS,),
        higher_is_better=False,
        record=("error",),
        axis="error rate",
        predicate="is incorrect for {value} of corrupted images (error, mean over {corruptions})",
        is_dark_when_high=True,
    ),
    Score(
        name="ce",
        title="CE",
        symbol="CE",
        meaning="errors as a percentage of a baseline model’s errors; lower is better",
        group="error",
        needs=(BASELINE, LABELS),
        higher_is_better=False,
        unit="percent",
        mean="mce",
        axis="CE: errors in % of the baseline’s",
    ),
    Score(
        name="relative_ce",
        title="relative CE",
        symbol="Relative CE",
        meaning="errors that a corruption adds, as a percentage of the errors it adds for the"
        " baseline; lower is better",
        group="error",
        needs=(BASELINE, CLEAN, LABELS),
        higher_is_better=False,
        unit="percent",
        axis="relative CE: added errors in % of the baseline’s",
        mean="relative_mce",
    ),
    Score(
        name="mce",
        title="mCE",
        symbol="mCE",
        meaning="errors as a percentage of a baseline model’s errors, mean over corruptions; lower"
        " is better",
        group="error",
        needs=(BASELINE, LABELS),
        higher_is_better=False,
        unit="percent",
        predicate="makes {value} as many errors as {baseline} (mCE, mean over {corruptions})",
        of_test=True,
    ),
    Score(
        name="relative_mce",
        title="relative mCE",
        symbol="Relative mCE",
        meaning="errors that corruption adds, as a percentage of the errors it adds for the"
        " baseline; lower is better",
        group="error",
        needs=(BASELINE, CLEAN, LABELS),
        higher_is_better=False,
        unit="percent",
        predicate="adds {value} as many errors under corruption as {baseline} (relative mCE,"
        " mean over {corruptions})",
        of_test=True,
        short="Rel. mCE",
    ),
    Score(
        name="top5_accuracy",
        title="top-5 accuracy",
        symbol="Top-5 accuracy",
        meaning="fraction of corrupted images whose label is among the top five predictions",
        group="prediction",
        needs=(LABELS,),
        record=("computed_scores", "top5_accuracy"),
        compute=top5_accuracy,
        is_main=False,
        can_gate=True,
    ),
    Score(
        name="ece",
        title="ECE",
        symbol="ECE",
        meaning="expected calibration error: mean gap between confidence and accuracy on corrupted"
        " images, in 15 bins of equal mass; too high if images are few; lower is better",
        group="prediction",
        needs=(LABELS,),
        higher_is_better=False,
        record=("computed_scores", "ece"),
        compute=expected_calibration_error,
        is_main=False,
        can_gate=True,
        is_dark_when_high=True,
    ),
    _break_point(
        "a", "Δv₅₀", "smallest visual change at which accuracy is halfway between clean and chance"
    ),
    _break_point("p", "Δv₅₀ₚ", "like Δv₅₀, for predictions equal to the one for the clean image"),
)  # fmt: skip
"""All scores, in the order of model cards and the terminal's per-corruption tables."""

SCORES = {score.name: score for score in DECLARED}

OVERALL = tuple(score for score in DECLARED if not score.mean and score.has_mean)
"""Scores available for a whole test, in the order of model cards."""

LEADERBOARD = tuple(
    sorted(OVERALL, key=lambda score: ("clean", "error", "curve", "prediction").index(score.group))
)
"""Scores that models can be ranked by, in the order of leaderboards."""

BY_PROPERTY = tuple(
    sorted(
        (score for score in DECLARED if score.record),
        key=lambda score: (*PROPERTIES, "").index(score.letter),
    )
)
"""Scores in the record of a corruption: accuracy first, then consistency, then the others."""

BY_RELEVANCE = tuple(
    sorted(
        (score for score in DECLARED if score.record),
        key=lambda score: 1 if HUMANS not in score.needs else 0 if LABELS in score.needs else 2,
    )
)
"""Scores in the record of a corruption, most relevant first: accuracy relative to humans, accuracy,
consistency relative to humans.
"""

CURVE_SCORES = tuple(score for score in BY_PROPERTY if score.group == "curve")
"""Curve scores in the column order of the VCR paper's Table 3."""

RANKED_BY = {
    "imagenet-c": ("mce", "error"),
    "imagenet-c-extra": ("mce", "error"),
    "imagenet-3dcc": ("mce", "error"),
    "imagenet-noc": ("relative_mce", "error"),
}
"""Scores that models are ranked by, per suite: the first available one is used."""

RANKED_ELSEWHERE = ("r_a", "r_p", "error", "clean_accuracy")
"""Scores that models are ranked by in other suites, or where a suite's scores are missing."""

IN_TERMINAL = {
    "vcr": ("clean_accuracy", "r_a", "r_p", "hmri_a", "mrsi_a", "hmri_p", "mrsi_p"),
    "imagenet-c": ("clean_accuracy", "error", "mce", "relative_mce", "r_a", "r_p"),
    "imagenet-noc": ("clean_accuracy", "error", "relative_mce", "mce"),
}
"""Scores in the terminal's leaderboard, per suite; all main scores for other suites."""


def find(record: object, path: Sequence[str]) -> Any:
    """Return the value at a path of attributes and keys in a record; None if it does not exist."""
    for name in path:
        if record is None:
            break
        record = record.get(name) if isinstance(record, Mapping) else getattr(record, name)
    return record


def values_of(record: object) -> dict[str, Estimate]:
    """Return the available scores in the record of a corruption by name: r_a, hmri_a, error."""
    estimates = {score.name: find(record, score.record) for score in BY_PROPERTY}
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def computed_scores(predictions: Predictions, n_bootstrap: int, seed: int) -> dict[str, Estimate]:
    """Return the scores computed from labeled predictions; scores that lack data are left out."""
    statistics = {
        score.name: statistic
        for score in DECLARED
        if score.compute is not None and (statistic := score.compute(predictions)) is not None
    }
    if not statistics:
        return {}
    estimates = estimate_statistics(list(statistics.values()), predictions, n_bootstrap, seed)
    return dict(zip(statistics, estimates, strict=True))
