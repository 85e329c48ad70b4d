"""Placement: the visual change Δv in the conditions of published experiments.

An experiment names its conditions by strength. Applying its transformations to images gives the Δv
that participants saw; each condition has a distribution of Δv values, not a single value. The
packaged reference (Geirhos et al. 2018) consists of counts per condition, and their Δv is
determined in this way. Conditions without Δv, such as quarter turns, are points beside models.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from eyechart.core.arguments import regular_file
from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import packaged_rows
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.core.registry import unknown_name
from eyechart.core.storage.files import atomic_file
from eyechart.humans.human_responses import CLEAN, HumanResponses, join_responses, make_responses
from eyechart.images.identity import content_keys
from eyechart.images.image_files import find_image_files, read_image
from eyechart.images.stimulus import STIMULI
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.measure import clean_statistics, measure_change
from eyechart.visual_change.registry import DEFAULT_RULER

LEVELS = np.linspace(0, 1, 41)
"""Probabilities of the quantiles that are stored for each distribution of Δv."""

HUMAN_RULER = DEFAULT_RULER
"""Ruler with which the Δv of all human responses is measured. There is no placement for other
rulers, so models cannot be compared with humans on them.
"""

MEAN_GRAY = 0.4423
"""Gray value beyond the image border in the experiment's low-pass filter."""

NOISE_CONTRAST = 0.3
"""Contrast to which images were reduced before noise was added, so that few values are clipped."""

CITATION = (
    "Geirhos, Temme, Rauber, Schütt, Bethge, Wichmann (2018): Generalisation in humans and deep"
    " neural networks. NeurIPS."
)
GRAY = "bw"
"""Condition of the color experiment in which clean grayscale images were shown."""

FIRST = "# Visual change of the conditions of Geirhos et al. 2018 (contrast, low-pass filtering,"
ABOUT = """\
# uniform noise), by eyechart's VIF on {images} (shorter side 256, center 224 px, gray).
# Columns are quantiles over images.
"""


@dataclass(frozen=True)
class Experiment:
    """An experiment's transformation of gray images in [0, 1], and its strengths, weakest first."""

    title: str
    strengths: tuple[float, ...]
    transformation: Callable[[FloatArray, float, FloatArray], FloatArray]


def _lower_contrast(gray: FloatArray, contrast: float, _: FloatArray) -> FloatArray:
    return (1 - contrast) / 2 + contrast * gray


def _low_pass(gray: FloatArray, sigma: float, _: FloatArray) -> FloatArray:
    filtered = gaussian_filter(gray, sigma, mode="constant", cval=MEAN_GRAY) if sigma else gray
    return np.asarray(filtered)


def _add_noise(gray: FloatArray, width: float, uniform: FloatArray) -> FloatArray:
    return _lower_contrast(gray, NOISE_CONTRAST, uniform) + width * (2 * uniform - 1)


EXPERIMENTS = {
    "contrast": Experiment("contrast", (1, 0.5, 0.3, 0.15, 0.1, 0.05, 0.03, 0.01), _lower_contrast),
    "lowpass": Experiment("low-pass filtering", (0, 1, 3, 5, 7, 10, 15, 40), _low_pass),
    "noise": Experiment("uniform noise", (0, 0.03, 0.05, 0.1, 0.2, 0.35, 0.6, 0.9), _add_noise),
}


@dataclass(frozen=True)
class Placement:
    """Quantiles (at `LEVELS`) of Δv for each strength of one experiment."""

    experiment: str
    quantiles: dict[float, FloatArray]

    def spread(self, strength: float, count: int) -> FloatArray:
        """Return `count` increasing values of Δv at evenly spaced quantiles of the condition."""
        if strength not in self.quantiles:
            known = ", ".join(f"{known_strength:g}" for known_strength in self.quantiles)
            raise UsageError(
                f"The placement '{self.experiment}' has no condition {strength:g}; it has {known}."
            )
        # Midpoints of `count` equal shares, so that neither tail of the distribution is favored.
        places = (np.arange(count) + 0.5) / count
        return np.asarray(np.interp(places, LEVELS, self.quantiles[strength]))


def strength_of(condition: str) -> float:
    """Return the strength that a condition's name states, such as 0.05 for "c05" (contrast 5 %).

    Example:
        >>> strength_of("0.35"), strength_of("c05")
        (0.35, 0.05)
    """
    try:
        return round(float(condition[1:]) / 100, 6) if condition[:1] == "c" else float(condition)
    except ValueError:
        raise UsageError(
            f"'{condition}' is not a condition of a placement: use numbers, or c05 for a contrast"
            " of 5 %."
        ) from None


def find_placement(experiment: str) -> Placement:
    """Return the packaged placement of an experiment: "contrast", "lowpass" or "noise"."""
    if experiment not in EXPERIMENTS:
        raise unknown_name("placement", experiment, EXPERIMENTS)
    return _packaged()[experiment]


def apply_condition(gray: NDArray[np.uint8], experiment: str, strength: float) -> NDArray[np.uint8]:
    """Return a grayscale image (H, W) as shown in a condition, rounded to 8 bits.

    Noise depends only on the image and the condition.
    """
    keys = content_keys(torch.from_numpy(gray.copy())[None])
    # Different but reproducible noise in each condition.
    salt = hash64(experiment, f"{strength:g}")
    uniform = ImageRandom(keys, [salt], torch.device("cpu")).uniform("noise", gray.shape)
    # Computed in float and rounded once, to the 8 bits of the displayed image.
    changed = EXPERIMENTS[experiment].transformation(
        gray / 255.0, strength, uniform[0].numpy().astype(np.float64)
    )
    return (np.clip(changed, 0, 1) * 255 + 0.5).astype(np.uint8)


def measure_conditions(grays: Iterable[NDArray[np.uint8]]) -> dict[tuple[str, float], FloatArray]:
    """Return the Δv of grayscale images (H, W) in every condition, one value per image."""
    keys = [
        (name, strength)
        for name, experiment in EXPERIMENTS.items()
        for strength in experiment.strengths
    ]
    rows = []
    for gray in grays:
        corrupted = np.stack([apply_condition(gray, *key) for key in keys])[..., None]
        change = measure_change(clean_statistics(gray), corrupted)
        rows.append(np.asarray(change.delta_v, dtype=np.float64))
    if not rows:
        raise UsageError("A placement needs at least one image.")
    return dict(zip(keys, np.stack(rows, axis=1), strict=True))


def measure_placements(images: Sequence[Path]) -> tuple[dict[str, Placement], int]:
    """Return the placement of every experiment, and the number of images that were measured."""
    image_files = find_image_files(images)
    # Participants saw grayscale images at 224 px.
    measured = measure_conditions(
        to_gray(STIMULI["224"](read_image(image_file.path))[None])[0].numpy()
        for image_file in image_files
    )
    # Δv is NaN for images below the information floor.
    if any(np.isnan(values).all() for values in measured.values()):
        raise UsageError("None of the images has enough structure to measure Δv: use photos.")
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
    """Write the table of quantiles atomically; only a placement file is overwritten."""
    if path.exists() and not regular_file(path).read_bytes().startswith(FIRST.encode()):
        raise UsageError(f"{path} already exists and is not a placement file: choose another file.")
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        file.write(f"{FIRST}\n{ABOUT.format(images=count_of(count, 'image'))}")
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["experiment", "strength", *(f"{level:g}" for level in LEVELS.round(3))])
        for name, placement in placements.items():
            for strength, quantiles in placement.quantiles.items():
                table.writerow([name, f"{strength:g}", *(f"{value:.4f}" for value in quantiles)])


def geirhos_responses() -> HumanResponses:
    """Return responses by participant and condition, spread evenly over the condition's Δv values.

    The published data are counts, so each response gets the participant's hit rate in that
    condition. Each experiment had different participants. Clean grayscale images of the color
    experiment have the corruption `clean`.
    """
    parts = []
    for row in packaged_rows("eyechart.humans", "data", "geirhos2018_counts.csv"):
        experiment, condition = row["experiment"], row["condition"]
        trials = int(row["trials"])
        if experiment in EXPERIMENTS:
            delta_v = find_placement(experiment).spread(strength_of(condition), trials)
        elif condition == GRAY:
            # Grayscale images without further change are the clean images of all three experiments.
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
                license="CC BY 4.0",
                corruption=np.full(trials, experiment),
                condition=np.full(trials, condition),
                # Participant numbers restart in each experiment, but denote different humans.
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


@cache
def human_conditions() -> Mapping[tuple[str, str], tuple[float, int, str]]:
    """Return human accuracy in single conditions of experiments with 16 categories.

    Returns:
        Accuracy, number of trials and source, by corruption and condition.

    Example:
        >>> human_conditions()["geometry/rotate", "180°"][0]
        0.8
    """
    rows = packaged_rows("eyechart.humans", "data", "geirhos2021_rotation.csv")
    return {
        (row["corruption"], row["condition"]): (
            float(row["accuracy"]),
            int(row["n_trials"]),
            row["source"],
        )
        for row in rows
    }
