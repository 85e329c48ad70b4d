"""Where the conditions of published experiments lie on the axis of visual change.

The packaged reference is laid out so: Geirhos et al. 2018, of whom counts by condition are kept.

An experiment names its conditions by strength; its transformations, applied to photographs, say
which Δv people saw. A condition is a distribution of Δv, not one number.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import packaged_rows
from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.core.registry import unknown_name
from eyechart.humans.human_responses import CLEAN, HumanResponses, join_responses, make_responses
from eyechart.images.identity import content_keys
from eyechart.images.image_files import find_pictures, read_picture
from eyechart.images.stimulus import STIMULI
from eyechart.visual_change.grey import to_grey
from eyechart.visual_change.measure import clean_statistics, measure_change
from eyechart.visual_change.registry import DEFAULT_RULER

Transformation = Callable[[FloatArray, float, FloatArray], FloatArray]

LEVELS = np.linspace(0, 1, 41)
"""The shares at which a distribution of Δv is kept."""

HUMAN_DEFINITION = DEFAULT_RULER
"""The definition of visual change by which all human responses are placed: by no other is there a
placement, so that tests by another one have no human comparison."""

MEAN_GREY = 0.4423
"""What low-pass filtering found beyond the border."""

NOISE_CONTRAST = 0.3
"""What contrast was cut to before noise came on top, so that little of it was clipped."""

CITATION = (
    "Geirhos, Temme, Rauber, Schütt, Bethge, Wichmann (2018): Generalisation in humans and deep"
    " neural networks. NeurIPS."
)
GREY = "bw"
"""The condition of the experiment on colour with clean grey pictures."""

FIRST = "# Visual change of the conditions of Geirhos et al. 2018 (contrast, low-pass filtering,"
ABOUT = """\
# uniform noise), by eyechart's VIF on {count} photographs (shorter side 256, middle 224 px, grey).
# Columns are quantiles over photographs.
"""


@dataclass(frozen=True)
class Experiment:
    """What was done to grey pictures in 0…1, at which strengths, the first being the weakest."""

    title: str
    strengths: tuple[float, ...]
    transformation: Transformation


def _lower_contrast(grey: FloatArray, contrast: float, _: FloatArray) -> FloatArray:
    return (1 - contrast) / 2 + contrast * grey


def _low_pass(grey: FloatArray, sigma: float, _: FloatArray) -> FloatArray:
    filtered = gaussian_filter(grey, sigma, mode="constant", cval=MEAN_GREY) if sigma else grey
    return np.asarray(filtered)


def _add_noise(grey: FloatArray, width: float, uniform: FloatArray) -> FloatArray:
    return _lower_contrast(grey, NOISE_CONTRAST, uniform) + width * (2 * uniform - 1)


EXPERIMENTS = {
    "contrast": Experiment("contrast", (1, 0.5, 0.3, 0.15, 0.1, 0.05, 0.03, 0.01), _lower_contrast),
    "lowpass": Experiment("low-pass filtering", (0, 1, 3, 5, 7, 10, 15, 40), _low_pass),
    "noise": Experiment("uniform noise", (0, 0.03, 0.05, 0.1, 0.2, 0.35, 0.6, 0.9), _add_noise),
}


@dataclass(frozen=True)
class Placement:
    """The quantiles (at `LEVELS`) of Δv for each strength of one experiment."""

    experiment: str
    quantiles: dict[float, FloatArray]

    def spread(self, strength: float, count: int) -> FloatArray:
        """Return `count` values of Δv, rising, that stand evenly for a condition's pictures."""
        if strength not in self.quantiles:
            known = ", ".join(f"{known_strength:g}" for known_strength in self.quantiles)
            raise UsageError(
                f"The placement '{self.experiment}' has no condition {strength:g}; it has {known}."
            )
        places = (np.arange(count) + 0.5) / count
        return np.asarray(np.interp(places, LEVELS, self.quantiles[strength]))


def strength_of(condition: str) -> float:
    """Return the number in a condition's name: "0.35", or "c05" for a contrast of 5 %."""
    try:
        return round(float(condition[1:]) / 100, 6) if condition[:1] == "c" else float(condition)
    except ValueError:
        raise UsageError(
            f"'{condition}' is no condition of a placement: use numbers, or c05 for a contrast"
            " of 5 %."
        ) from None


def find_placement(experiment: str) -> Placement:
    """Return the packaged placement of an experiment: "contrast", "lowpass" or "noise"."""
    if experiment not in EXPERIMENTS:
        raise unknown_name("placement", experiment, EXPERIMENTS)
    return _packaged()[experiment]


def apply_condition(grey: NDArray[np.uint8], experiment: str, strength: float) -> NDArray[np.uint8]:
    """Return a grey picture (H, W) as people saw it in that condition, rounded to 8 bits.

    Noise depends on the picture and the condition alone.
    """
    changed = EXPERIMENTS[experiment].transformation(
        grey / 255.0, strength, _noise(grey, experiment, strength)
    )
    return (np.clip(changed, 0, 1) * 255 + 0.5).astype(np.uint8)


def measure_conditions(greys: Iterable[NDArray[np.uint8]]) -> dict[tuple[str, float], FloatArray]:
    """Return Δv of grey pictures (H, W) in every condition, one value per picture."""
    keys = [
        (name, strength)
        for name, experiment in EXPERIMENTS.items()
        for strength in experiment.strengths
    ]
    rows = []
    for grey in greys:
        corrupted = np.stack([apply_condition(grey, *key) for key in keys])[..., None]
        change = measure_change(clean_statistics(grey), corrupted)
        rows.append(np.asarray(change.delta_v, dtype=np.float64))
    if not rows:
        raise UsageError("A placement needs at least one picture.")
    return dict(zip(keys, np.stack(rows, axis=1), strict=True))


def measure_placements(images: Sequence[Path]) -> tuple[dict[str, Placement], int]:
    """Return the placement of every experiment, and on how many photographs it was measured."""
    image_files = find_pictures(images)
    measured = measure_conditions(_greys([image_file.path for image_file in image_files]))
    if any(np.isnan(values).all() for values in measured.values()):
        raise UsageError("None of the pictures holds enough to measure: give photographs.")
    placements = {
        name: Placement(
            name,
            {
                strength: np.nanquantile(measured[name, strength], LEVELS)
                for strength in one.strengths
            },
        )
        for name, one in EXPERIMENTS.items()
    }
    return placements, len(image_files)


def write_placements(path: Path, placements: dict[str, Placement], count: int) -> None:
    """Write the table of quantiles, whole or not at all; only such a table is ever replaced."""
    if path.exists() and not path.read_bytes().startswith(FIRST.encode()):
        raise UsageError(f"{path} is there already and is no placement: choose another file.")
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        file.write(f"{FIRST}\n{ABOUT.format(count=count)}")
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["experiment", "strength", *(f"{level:g}" for level in LEVELS.round(3))])
        for name, placement in placements.items():
            for strength, quantiles in placement.quantiles.items():
                table.writerow([name, f"{strength:g}", *(f"{value:.4f}" for value in quantiles)])


def geirhos_responses() -> HumanResponses:
    """Return the answers by subject and condition, spread evenly over the condition's Δv.

    Each has the subject's rate in that condition: which answers were right is not counted apart.
    The experiments' people are others each time. Clean grey pictures of the experiment on colour
    are there as `clean`.
    """
    parts = []
    for row in packaged_rows("eyechart.humans", "data", "geirhos2018_counts.csv"):
        experiment, condition = row["experiment"], row["condition"]
        trials = int(row["trials"])
        if experiment in EXPERIMENTS:
            placement = find_placement(experiment)
            delta_v = placement.spread(strength_of(condition), trials)
        elif condition == GREY:
            experiment, delta_v = CLEAN, np.zeros(trials)
        else:
            continue
        parts.append(
            make_responses(
                trials,
                source="geirhos2018",
                choices=16,
                label_space="entry16",
                citation=CITATION,
                licence="CC BY 4.0",
                corruption=np.full(trials, experiment),
                condition=np.full(trials, condition),
                subject=np.full(trials, f"{row['experiment']}/{row['subject']}"),
                delta_v=delta_v,
                correct=np.full(trials, int(row["correct"]) / trials),
            )
        )
    return join_responses(parts)


@cache
def _packaged() -> dict[str, Placement]:
    quantiles: dict[str, dict[float, FloatArray]] = {}
    for row in packaged_rows("eyechart.humans", "data", "geirhos_delta_v.csv"):
        experiment, strength = row.pop("experiment"), float(row.pop("strength"))
        values = np.array([float(value) for value in row.values()])
        quantiles.setdefault(experiment, {})[strength] = values
    return {name: Placement(name, by_strength) for name, by_strength in quantiles.items()}


def _greys(paths: Iterable[Path]) -> Iterator[NDArray[np.uint8]]:
    for path in paths:
        yield to_grey(STIMULI["224"](read_picture(path))[None])[0].numpy()


def _noise(grey: NDArray[np.uint8], experiment: str, strength: float) -> FloatArray:
    """Return numbers in 0…1 of the picture's shape."""
    keys = content_keys(torch.from_numpy(grey.copy())[None])
    salt = hash64(experiment, f"{strength:g}")
    uniform = ImageRandom(keys, [salt], torch.device("cpu")).uniform("noise", grey.shape)
    return uniform[0].numpy().astype(np.float64)
