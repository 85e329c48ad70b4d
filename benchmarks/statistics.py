"""Simulate evaluations with known true curves: bias, coverage and width of intervals.

`python -m benchmarks.statistics` runs the grid of docs/concepts/statistics.md on all cores and
prints its tables;
`--runs 20 --images 60 --samples 150` runs a small subset of it. The tests run a few cells.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.scores.break_point import find_break_point
from eyechart.scores.human_relative import HUMANS_AHEAD, MODEL_AHEAD, scenario
from eyechart.stats.curve import Curve, fit_curve
from eyechart.stats.density import Density
from eyechart.stats.estimate import make_estimate

Shape = Callable[[FloatArray], FloatArray]

CORRELATION = 0.78
"""Correlation between the latent difficulties of two samples of an image, fitted to real runs."""

REACH = 0.95
"""Largest visual change that samples reach."""

CHANCE = 1 / 16

N_BOOTSTRAP = 200

IMAGES, SAMPLES = (20, 60, 200, 1000), (60, 150, 600, 5000)
SAMPLINGS = ("pilot", "uniform", "parameters")


def _falling(start: float, middle: float, width: float, end: float) -> Shape:
    """Return a sigmoid that is `start` at 0 and approaches `end`."""
    scale = 1 + np.exp(-middle / width)

    def shape(delta_v: FloatArray) -> FloatArray:
        return np.asarray(end + (start - end) * scale / (1 + np.exp((delta_v - middle) / width)))

    return shape


SHAPES: dict[str, Shape] = {
    "flat": lambda delta_v: 0.8 + 0 * delta_v,
    "linear": lambda delta_v: 0.9 - 0.8 * delta_v,
    "early": _falling(0.9, 0.3, 0.06, 0.05),
    "middle": _falling(0.85, 0.55, 0.08, 0.1),
    "late": _falling(0.9, 0.85, 0.04, 0.05),
    "step": _falling(0.9, 0.6, 0.01, 0.1),
    "concave": lambda delta_v: 0.9 * np.sqrt(np.clip(1 - delta_v**2, 1e-9, 1)),
    "decay": lambda delta_v: 0.05 + 0.85 * np.exp(-5 * delta_v),
}

CANDIDATES: dict[str, dict[str, Any]] = {
    "isotonic": {"estimator": "isotonic"},
    # The paper's spline without its minimum count.
    "spline": {"estimator": "spline", "min_per_bin": 1e-6},
    # The same with adjacent bins pooled, about 20 samples in each.
    "pooled": {"estimator": "spline", "min_per_bin": 1e-6, "bins": "pooled"},
}
"""Estimators that use every sample; the first is the default."""


@dataclass(frozen=True)
class Cell:
    """One cell of the simulation grid: a combination of settings."""

    shape: str
    n_images: int
    n_samples: int
    sampling: str
    candidate: str = "isotonic"


@dataclass(frozen=True)
class CellResult:
    """Results of a cell's simulated runs; areas are over the range of Δv that samples reach.

    Attributes:
        bias: Mean error of the area.
        bias_error: Monte Carlo standard error of the bias.
        coverage: How often the 95 % interval contains the true area.
        width: Mean width of that interval.
        bounded: How often the bounds contain the true area over Δv from 0 to 1.
        break_bias: Median error of the break point; None if the true curve does not reach it.
        break_coverage: How often the break point's interval contains the true value; an interval
            without an upper limit contains everything above its lower limit.
        is_censored_right: How often the break point is reported as "> x" if the true curve does not
            reach it.
    """

    cell: Cell
    bias: float
    bias_error: float
    coverage: float
    width: float
    bounded: float
    break_bias: float | None
    break_coverage: float | None
    is_censored_right: float | None


def draw_samples(
    numbers: np.random.Generator, shape: Shape, n_images: int, n_samples: int, sampling: str
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Return the Δv, hits, hits on the clean image and image indices of simulated samples.

    A sample is a hit if its difficulty, which is correlated within an image, is below the true
    rate; the expected fraction of hits equals the true rate.
    """
    image = numbers.permutation(n_images)[np.arange(n_samples) % n_images]
    own, shift = numbers.standard_normal((2, n_images))
    if sampling == "uniform":
        delta_v = numbers.uniform(0, REACH, n_samples)
    elif sampling == "pilot":
        # Expected Δv is uniform; images deviate from it.
        spread = 0.05 * shift[image] + 0.02 * numbers.standard_normal(n_samples)
        delta_v = np.clip(numbers.uniform(0, REACH, n_samples) + spread, 0.001, REACH)
    else:
        # Strengths uniform over a domain: Δv leaves the lowest and the highest range empty.
        delta_v = 0.3 + 0.55 * np.sqrt(numbers.uniform(size=n_samples)) + 0.03 * shift[image]
        delta_v = np.clip(delta_v, 0, REACH)
    within = np.sqrt(1 - CORRELATION)

    def hits(of_image: FloatArray, rate: FloatArray) -> FloatArray:
        noise = numbers.standard_normal(len(of_image))
        is_hit = np.sqrt(CORRELATION) * of_image + within * noise < ndtri(rate)
        return np.asarray(is_hit, dtype=np.float64)

    clean = hits(own, np.full(n_images, shape(np.zeros(1))[0]))
    return delta_v, hits(own[image], shape(delta_v)), clean[image], image


def run_cell(cell: Cell, n_runs: int) -> CellResult:
    """Return the results of `n_runs` simulated evaluations of a cell."""
    shape = SHAPES[cell.shape]
    grid = (np.arange(20_000) + 0.5) / 20_000
    reached = Density.of_weights([1.0] * 19 + [0.0])
    true_area, whole_area = float(shape(REACH * grid).mean()), float(shape(grid).mean())
    level = (float(shape(np.zeros(1))[0]) + CHANCE) / 2
    below = np.flatnonzero(shape(grid) <= level)
    true_break = float(grid[below[0]]) if len(below) else np.inf
    found: list[tuple[float, ...]] = []
    for run in range(n_runs):
        numbers = np.random.default_rng(
            (run, cell.n_images, cell.n_samples, list(SHAPES).index(cell.shape))
        )
        samples = draw_samples(numbers, shape, cell.n_images, cell.n_samples, cell.sampling)
        curve = _fit(samples, cell.candidate, reached, run)
        n_images = min(cell.n_images, cell.n_samples)
        low, high = make_estimate(curve.area, curve.areas, n_images).interval95
        lowest, highest = (
            _fit(samples, cell.candidate, None, run).bounds
            if cell.sampling == "parameters"
            else (0, 1)
        )
        point = find_break_point(curve, CHANCE, n_images)
        assert point is not None
        start, end = point.interval95
        is_inside = start <= true_break and (np.isnan(end) or true_break <= end)
        found.append(
            (
                curve.area - true_area,
                float(low <= true_area <= high),
                high - low,
                float(lowest <= whole_area <= highest),
                # A break point beyond the observed range is above all others.
                point.value - true_break if point.is_known else np.inf,
                float(is_inside),
                float(not point.is_known),
            )
        )
    area, covered, width, bounded, shift, inside, censored = np.array(found).T
    is_reached = true_break < REACH - 0.1
    return CellResult(
        cell,
        float(area.mean()),
        float(area.std() / np.sqrt(n_runs)),
        float(covered.mean()),
        float(width.mean()),
        float(bounded.mean()),
        float(np.median(shift)) if is_reached else None,
        float(inside.mean()) if is_reached else None,
        float(censored.mean()) if true_break > REACH else None,
    )


def _fit(
    samples: tuple[FloatArray, FloatArray, FloatArray, IntArray],
    candidate: str,
    density: Density | None,
    seed: int,
) -> Curve:
    delta_v, hits, clean, image = samples
    options = dict(CANDIDATES[candidate])
    if options.get("bins") == "pooled":
        options["bins"] = int(np.clip(len(hits) // 20, 4, 40))
    return fit_curve(
        delta_v,
        hits,
        anchor=clean,
        clusters=image,
        density=density,
        n_bootstrap=N_BOOTSTRAP,
        seed=seed,
        **options,
    )


TRUTHS: dict[str, tuple[Shape, Shape]] = {
    "equal": (_falling(0.85, 0.6, 0.09, 0.06), _falling(0.85, 0.6, 0.09, 0.06)),
    "humans ahead": (_falling(0.9, 0.75, 0.07, 0.06), _falling(0.85, 0.6, 0.09, 0.06)),
    "model ahead": (_falling(0.85, 0.6, 0.09, 0.06), _falling(0.9, 0.75, 0.07, 0.06)),
    "crossing": (_falling(0.92, 0.55, 0.09, 0.06), lambda delta_v: 0.82 - 0.6 * delta_v),
}
"""True human and model curves, by which of the two is ahead."""


def run_verdicts(truth: str, n_images: int, n_samples: int, n_runs: int) -> dict[str, object]:
    """Return how often each verdict occurs, and how often two samplings give opposite verdicts."""
    humans, model = TRUTHS[truth]
    verdicts: dict[str, Counter[str]] = {name: Counter() for name in ("uniform", "parameters")}
    n_opposite = n_wrong = 0
    for run in range(n_runs):
        names = []
        for number, sampling in enumerate(verdicts):
            numbers = np.random.default_rng((run, number, n_images, n_samples))
            human = _fit(draw_samples(numbers, humans, 150, 1500, "uniform"), "isotonic", None, run)
            own = draw_samples(numbers, model, n_images, n_samples, sampling)
            name = scenario(human, _fit(own, "isotonic", None, run + 1)).name
            verdicts[sampling][name] += 1
            names.append(name)
        n_opposite += {HUMANS_AHEAD, MODEL_AHEAD} == set(names)
        n_wrong += any(name in (HUMANS_AHEAD, MODEL_AHEAD) and name != truth for name in names)
    return {
        "truth": truth,
        "n_images": n_images,
        "n_samples": n_samples,
        **{sampling: dict(counts) for sampling, counts in verdicts.items()},
        "opposite": n_opposite / n_runs,
        "wrong": n_wrong / n_runs,
    }


def cells(
    images: Sequence[int], samples: Sequence[int], samplings: Sequence[str] = SAMPLINGS
) -> Iterator[Cell]:
    """Yield all cells with the default estimator, and some cells with the other estimators."""
    for shape, n_images, n_samples, sampling in product(SHAPES, images, samples, samplings):
        yield Cell(shape, n_images, n_samples, sampling)
    for shape, candidate in product(SHAPES, CANDIDATES):
        for n_images, n_samples in ((60, 150), (200, 600)):
            if candidate != "isotonic" and n_images in images and n_samples in samples:
                yield Cell(shape, n_images, n_samples, "uniform", candidate)


def main() -> None:
    """Run the grid and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--images", type=int, nargs="+", default=IMAGES)
    parser.add_argument("--samples", type=int, nargs="+", default=SAMPLES)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    grid = list(cells(asked.images, asked.samples))
    verdicts = [(truth, *size) for truth in TRUTHS for size in ((60, 300), (300, 3000))]
    with ProcessPoolExecutor(asked.workers) as pool:
        # The longest cells first, so that no worker starts one last.
        order = sorted(grid, key=lambda cell: -cell.n_samples)
        found = list(pool.map(partial(run_cell, n_runs=asked.runs), order))
        judged = list(
            pool.map(run_verdicts, *zip(*verdicts, strict=True), [asked.runs] * len(verdicts))
        )
    if asked.json:
        plain = {"cells": [asdict(result) for result in found], "verdicts": judged}
        asked.json.write_text(json.dumps(plain) + "\n", encoding="utf-8")
    for line in tables(found):
        print(line)
    for verdict in judged:
        print(verdict)


def tables(found: Sequence[CellResult]) -> Iterator[str]:
    """Yield the results as Markdown tables, pooled over curve shapes."""
    yield "| sampling | estimator | images | samples | largest bias | coverage | lowest | width |"
    yield "|---|---|---|---|---|---|---|---|"
    groups: dict[tuple[str, str, int, int], list[CellResult]] = {}
    for result in found:
        cell = result.cell
        key = (cell.sampling, cell.candidate, cell.n_images, cell.n_samples)
        groups.setdefault(key, []).append(result)
    for key, results in sorted(groups.items()):
        bias = max((result.bias for result in results), key=abs)
        covered = [result.coverage for result in results]
        width = np.mean([result.width for result in results])
        row = [*map(str, key), f"{bias:+.3f}", f"{np.mean(covered):.3f}", f"{min(covered):.3f}"]
        yield f"| {' | '.join([*row, f'{width:.3f}'])} |"
    yield ""
    yield "| sampling | images | samples | bounds | Δv₅₀ bias | coverage | lowest | not reached |"
    yield "|---|---|---|---|---|---|---|---|"
    for (sampling, candidate, n_images, n_samples), results in sorted(groups.items()):
        if candidate != "isotonic":
            continue
        bounded = np.mean([result.bounded for result in results])
        biases = [result.break_bias for result in results if result.break_bias is not None]
        inside = [r.break_coverage for r in results if r.break_coverage is not None]
        open_ends = [r.is_censored_right for r in results if r.is_censored_right is not None]
        yield (
            f"| {sampling} | {n_images} | {n_samples} | {bounded:.3f} | {max(biases, key=abs):+.3f}"
            f" | {np.mean(inside):.3f} | {min(inside):.3f} | {np.mean(open_ends):.3f} |"
        )


if __name__ == "__main__":
    main()
