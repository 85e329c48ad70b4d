"""Whole runs whose numbers are recorded: do they stay the same while the code is laid out anew?

    python tests/support/reference_runs.py demo FOLDER [RUN ...] [--record]
    EYECHART_TEST_DATA=HOME python tests/support/reference_runs.py data FOLDER [RUN ...] [--record]

Runs are made in FOLDER by commands (what is there already is kept), and read as users read them
(`reference_values`). RUN chooses some of them; with --record their rows are replaced, and those of
other runs stay as they are.

`demo`: the 20 demo images, two toy models of exact arithmetic (`toy_models`), EfficientNet-Lite0.
`make test` compares them with `tests/data/reference_demo.csv`; a minute on two cores.

What may differ on another processor was measured on an AMD EPYC with AVX-512 by taking
instructions away from torch, oneDNN, MKL, OpenBLAS, OpenCV and NumPy (AVX2 at most; SSE4 at most;
`ATEN_CPU_CAPABILITY=default` alone) and with two threads. Of the toy models not one of 16,000
numbers differed by more than 1e-12, that is, no pixel, Δv or prediction did. Of EfficientNet-Lite0,
confidences and ECE differed by up to 3.2e-7, and nothing else by more than 1e-12: logits differed
by up to 1.7e-5, and the two highest of a sample are at least 2.9e-4 apart, so that no prediction
changed. On an Intel Xeon with AVX-512, confidences and ECE of the toy models differ by up to 5e-9
too (exponentials in single precision), and nothing else. Hence the three limits below. If a
prediction does change on a processor that rounds more, its sample is to be left out of the run
rather than the limit raised.

`data`: real images, and studies with trained networks; a quarter of an hour. `make validate`
compares them with `tests/data/reference_runs.csv`. Values must be equal. So must intervals, except
those of structure studies: they are resampled with other random numbers than in the recorded runs.
They must lie where the recorded code puts them with 400 other seeds, between the ends in
`tests/data/reference_spread.csv`, which --spread 400 wrote.
"""

import argparse
import csv
import io
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import eyechart as ec
from reference_inputs import NOISES, make_inputs
from reference_values import ends_of, estimates_of, formulas, numbers_in, values_in
from report_runs import save_enough

DATA = Path(__file__).parents[1] / "data"
RECORDED = {"demo": DATA / "reference_demo.csv", "data": DATA / "reference_runs.csv"}
SPREAD = DATA / "reference_spread.csv"
ROUNDING = 1e-12
"""Largest difference of what is computed in exact or double precision."""

NETWORK_ROUNDING = 1e-5
"""Largest difference of the confidences of networks, and of ECE, which is computed from them."""

TOY_ROUNDING = 1e-8
"""Largest difference of the same numbers of toy models: twice what another processor gave."""

MODELS = ("efficientnet_lite0", "efficientnet_lite1")
# what was the default when the runs on real data were recorded
CURVES = ("--bins", "11", "--min-per-bin", "5", "--n-bootstrap", "300", "--estimator", "spline")
SAMPLING = ("--sampling", "parameters")
TRAINING = ("--stimulus", "native", "--arch", "resnet9", "--lr", "0.05")

FINE, COARSE = "toy_models:fine", "toy_models:coarse"
FEW = ("--n-bootstrap", "40")
SMALL = (*FEW, "--stimulus", "64", "--humans", "none")
GATE_RULES = """\
rules:
  - {name: floor, corruptions: all, at_least: 0.4, model: "toy_models:fine"}
  - {name: noise, families: [noise], delta_v: [0, 0.6], at_least: 0.9, model: "toy_models:fine"}
  - {name: loss, corruptions: all, no_worse_than_old: {margin: 0.05}, model: "toy_models:coarse",
     old_model: "toy_models:fine"}
  - {name: consistency, corruptions: [frost, brightness], metric: consistency, at_least: 0.2,
     labels: entry16, model: "toy_models:coarse"}
"""

ENDS = ("value", "low95", "high95")
COLUMNS = ("low95", "high95", "low83", "high83")
"""Columns of the file of demo runs, beside the value."""

Scores = dict[str, float]


DEMO_RUNS: dict[str, list[list[str]]] = {
    # people, gate and figures of the primary suite, at the size that Δv of people is known for
    "vcr": [
        ["evaluate", FINE, COARSE, "--suite", "vcr", "--n", "30", *FEW, "--out", "{out}/run"],
        ["gate", "{out}/run", "--against", "{out}/run", "--rules", "{out}/rules.yaml",
         "--json", "{out}/gate.json"],
        ["compare", "{out}/run", "--labels", "entry16", "--by", "hmri_a", "--out", "{out}"],
    ],
    "vcr_network": [
        ["evaluate", "efficientnet_lite0", "--n", "16", *FEW, "--corruption", "gaussian_noise",
         "--corruption", "shot_noise", "--corruption", "motion_blur", "--corruption", "frost",
         "--corruption", "hue_saturation_value", "--out", "{out}/run"],
    ],
    "imagenet_c_network": [
        ["evaluate", "efficientnet_lite0", "--suite", "imagenet-c", "--max-images", "5", *FEW,
         "--humans", "none", "--corruption", "impulse_noise", "--corruption", "glass_blur",
         "--corruption", "fog", "--corruption", "elastic_transform", "--out", "{out}/run"],
    ],
    "spline": [
        ["evaluate", COARSE, "--sampling", "parameters", "--estimator", "spline", "--n", "60",
         *SMALL, "--bins", "8", "--min-per-bin", "3", "--out", "{out}/run"],
    ],
    "presets": [
        ["evaluate", FINE, "--preset", "vcr", "--n", "60", "--bins", "6", *SMALL, "--corruption",
         "blur", "--corruption", "color_jitter", "--out", "{out}/vcr"],
        ["evaluate", COARSE, "--preset", "imagenet-c", "--max-images", "4", *SMALL, "--baseline",
         FINE, "--out", "{out}/imagenet-c"],
        ["evaluate", COARSE, "--preset", "imagenet-noc", "--n", "8", *SMALL, "--baseline", FINE,
         "--out", "{out}/imagenet-noc"],
    ],
    "cobs": [
        ["evaluate", COARSE, "--n", "60", "--estimator", "cobs", "--binning", "equal", *SMALL,
         "--bins", "8", "--min-per-bin", "3", "--corruption", "gaussian_noise", "--out",
         "{out}/run"],
    ],
    "entry16": [
        ["evaluate", FINE, "--labels", "entry16", "--rule", "sum", "--n", "24", *FEW,
         "--baseline", "humans", "--right-anchor", "chance", "--density", "beta:2,1",
         "--corruption", "gaussian_noise", "--corruption", "blur", "--out", "{out}/run"],
    ],
    "no_labels": [
        ["evaluate", COARSE, "--labels", "none", "--n", "20", *SMALL, "--corruption", "brightness",
         "--corruption", "color_jitter", "--out", "{out}/run"],
    ],
    "imagenet_c": [
        ["evaluate", FINE, COARSE, "--suite", "imagenet-c", "--max-images", "10", *SMALL,
         "--baseline", COARSE, "--right-anchor", "measured", "--out", "{out}/run"],
    ],
    "imagenet_c_extra": [
        ["evaluate", COARSE, "--suite", "imagenet-c-extra", "--max-images", "6", "--jpeg", "85",
         *SMALL, "--out", "{out}/run"],
    ],
    "noc": [
        ["evaluate", FINE, "--suite", "imagenet-noc", "--n", "20", *SMALL, "--baseline", COARSE,
         "--out", "{out}/run"],
    ],
    "noc_candidates": [
        ["evaluate", COARSE, "--suite", "noc-candidates", "--n", "10", *SMALL, "--out",
         "{out}/run"],
    ],
    "geometry": [
        ["evaluate", COARSE, "--suite", "geometry", "--n", "16", *SMALL, "--out", "{out}/run"],
    ],
    "rulers": [
        ["evaluate", COARSE, "--n", "10", *FEW, "--humans", "none", "--corruption", "frost",
         "--ruler", ruler, "--out", f"{{out}}/{ruler}"]
        for ruler in ("sheikh2006", "vif-pixel", "vif-human", "ms-ssim")
    ],
    # as many images as a claim needs: ranks, paired tests, rankings of two suites, verdicts
    "suites_compared": [
        *(
            ["evaluate", FINE, COARSE, "--images", "{images}", "--suite", suite, "--n", "60",
             *SMALL, "--corruption", "gaussian_noise", "--corruption", "frost", "--corruption",
             "brightness", "--out", f"{{out}}/{suite}"]
            for suite in ("vcr", "imagenet-c")
        ),
        ["compare", "{out}/vcr", "{out}/imagenet-c", "--out", "{out}"],
    ],
    "claims": [
        ["evaluate", FINE, COARSE, "--images", "{images}", "--labels", "entry16", "--n", "60",
         *FEW, "--corruption", "gaussian_noise", "--corruption", "blur", "--corruption",
         "frost", "--corruption", "brightness", "--out", "{out}/run"],
        ["gate", "{out}/run", "--against", "{out}/run", "--rules", "{out}/rules.yaml",
         "--json", "{out}/gate.json"],
        ["compare", "{out}/run", "--labels", "entry16", "--by", "hmri_a", "--out", "{out}"],
    ],
}  # fmt: skip
"""Commands of each run; {out} is the folder of the run, {images} a folder of 60 images."""

SHARDED = ("evaluate", FINE, COARSE, "--n", "14", *SMALL, "--corruption", "gaussian_noise",
           "--corruption", "frost", "--corruption", "blur")  # fmt: skip
"""A run that is also made in shards, which must give the same bytes."""

DEMO = [*DEMO_RUNS, "formulas"]
"""Runs on demo images, and formulas on fixed numbers."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=list(RECORDED))
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--spread", type=int, metavar="SEEDS")
    arguments = parser.parse_args()
    home, path = arguments.folder.resolve(), RECORDED[arguments.suite]
    runs = arguments.runs or (DEMO if arguments.suite == "demo" else list(data_runs(home)))
    scores = {key: value for name in runs for key, value in make_run(name, home).items()}
    if arguments.spread:
        inputs = home / "inputs"
        write_spread(
            {name: [*data_runs(inputs)[name], "--out", str(home / name)] for name in runs},
            arguments.spread,
        )
        return 0
    if arguments.record:
        before = read(path)
        kept = {key: value for key, value in before.items() if run_of(key) not in runs}
        print("\n".join(changes(before, scores)))
        write(kept | scores, path)
        return 0
    problems = [line for name in runs for line in differences(name, scores)]
    print("\n".join(problems) or "All numbers are as recorded.")
    return int(bool(problems))


def make_run(name: str, home: Path) -> Scores:
    """Make a run, unless it is in its folder already, and return its numbers by name."""
    if name == "formulas":
        return {f"{name}/{key}": value for key, value in formulas()}
    if name in DEMO_RUNS:
        return make_demo_run(name, home / name)
    return make_data_run(name, home)


def make_demo_run(name: str, out: Path) -> Scores:
    """Make a run on demo images in this process."""
    if not (out / "done").exists():
        out.mkdir(parents=True, exist_ok=True)
        (out / "rules.yaml").write_text(GATE_RULES, encoding="utf-8")
        with TemporaryDirectory() as folder:
            images = save_enough(Path(folder) / "images")
            for words in DEMO_RUNS[name]:
                eyechart([word.format(out=out, images=images) for word in words])
        (out / "done").touch()
    return {f"{name}/{key}": math.nan if value is None else value for key, value in values_in(out)}


def eyechart(words: Sequence[str]) -> str:
    """Run the command in this process; 1 is the status of a gate that does not pass."""
    output = io.StringIO()
    (program,) = entry_points(group="console_scripts", name="eyechart")
    with redirect_stdout(output), redirect_stderr(output):
        try:
            program.load()(list(words))
        except SystemExit as end:
            if end.code and (words[0], end.code) != ("gate", 1):
                raise RuntimeError(f"{words}: {output.getvalue()}") from end
    return output.getvalue()


def make_data_run(name: str, home: Path) -> Scores:
    """Make a run on real data, in processes of their own."""
    inputs, out = home / "inputs", home / name
    make_inputs(Path(os.environ["EYECHART_TEST_DATA"]) / "data", inputs)
    if not (out / "done").exists():
        run([*data_runs(inputs)[name], "--out", str(out)])
        for command in follow_ups(out) if name == "overlap" else ():
            run(command)
        (out / "done").touch()
    return {f"{name}: {key}": value for key, value in scores_in(out)}


def run(command: list[str]) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "eyechart", *command], check=True, env=environment)


def data_runs(inputs: Path) -> dict[str, list[str]]:
    """Return the arguments of each run by its name."""
    photos, kinds = inputs / "photos.csv", inputs / "kinds.csv"
    few = ("--epochs", "3", "--batch-size", "16")
    return {
        "vcr": ["evaluate", *MODELS, "--images", str(photos), "--n", "150", *SAMPLING, *CURVES],
        "imagenet_c": [
            "evaluate", *MODELS, "--images", str(photos), "--suite", "imagenet-c", "--max-images",
            "15", "--baseline", MODELS[0], *CURVES,
        ],
        "overlap": [
            "overlap", "run", "--train-images", str(inputs / "waves" / "train"), "--images",
            str(inputs / "waves" / "test"), "--suite", "imagenet-c", "--suite", "vcr",
            "--corruption", "contrast", "--corruption", NOISES[0], "--corruption", NOISES[1],
            "--together", str(inputs / "noises.yaml"), "--seed", "1", *TRAINING, "--epochs", "6",
            "--batch-size", "32",
        ],
        "structure": ["structure", "style", "--images", str(kinds), *TRAINING, *few],
        "subclass": [
            "structure", "subclass", "--images", str(kinds), *TRAINING, *few, "--folds", "3",
        ],
        "demo": [
            "evaluate", *MODELS, "efficientnet_lite2", "--n", "300", *SAMPLING, "--bins", "11",
            "--min-per-bin", "5", "--estimator", "spline",
        ],
    }  # fmt: skip


def follow_ups(study: Path) -> list[list[str]]:
    """Return commands that write more tables into the folder of the overlap study."""
    return [
        ["overlap", "balance", str(study), "--out", str(study / "errors.csv")],
        [
            "overlap",
            "select",
            str(study),
            "--threshold",
            "0.3",
            "--marked",
            str(study / "selected.csv"),
        ],
    ]


def scores_in(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield every value and interval of a run on real data by its name."""
    if (folder / "scores.parquet").exists():
        results = ec.load(folder)
        for key, estimate in estimates_of(results):
            for end, value in ends_of(estimate):
                yield f"{' '.join(key)} {end or 'value'}", value
        for row in results.agreements:
            name = f"kappa {row.space} {row.first} {row.second}"
            ends = (row.kappa.value, *row.kappa.interval95)
            yield from zip((f"{name} {end}" for end in ENDS), ends, strict=True)
        return
    for path in sorted((*folder.glob("*.json"), *folder.glob("*.csv"))):
        if path.name == "run.json":
            continue
        if path.suffix == ".json":
            content = json.loads(path.read_text("utf-8"))
        else:
            with path.open(encoding="utf-8", newline="") as file:
                content = list(csv.reader(file))
        for key, value in numbers_in(content, path.name):
            # as it was called when it was recorded
            yield re.sub(r"\bn_images\b", "pictures", key), value


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Return what a record changes, counted by score: what its message must explain."""
    counts: Counter[str] = Counter()
    for key, value in after.items():
        if key not in before:
            counts[f"{run_of(key)} new"] += 1
        elif not is_same(before[key], value, limit_of(key)):
            # without the model and the corruption: "vcr r_a low95"
            parts = re.split("[:/ ]+", key)
            counts[" ".join((parts[0], *parts[-2:]))] += 1
    return [f"{name}: {count}" for name, count in sorted(counts.items())]


def run_of(name: str) -> str:
    """Return the run that a number belongs to."""
    return re.split("[:/]", name, maxsplit=1)[0]


def write(scores: Mapping[str, float], path: Path) -> None:
    """Write numbers, a row for each with its interval."""
    columns = COLUMNS if path == RECORDED["demo"] else ()
    rows: dict[str, dict[str, str]] = {}
    for name, value in scores.items():
        stem, _, end = name.rpartition("/")
        row, column = (stem, end) if end in columns else (name, "value")
        rows.setdefault(row, {})[column] = repr(float(value))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["score", "value", *columns], lineterminator="\n")
        table.writeheader()
        table.writerows({"score": name, **cells} for name, cells in rows.items())


def read(path: Path) -> Scores:
    """Return recorded numbers by name."""
    scores: Scores = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                stem = row.pop("score")
                for column, text in row.items():
                    if text:
                        name = stem if column == "value" else f"{stem}/{column}"
                        scores[name] = float(text)
    return scores


def write_spread(finished: dict[str, list[str]], n_seeds: int) -> None:
    """Score finished runs with other bootstrap seeds, and write the range of what moves.

    `finished`: the arguments of each, with its folder; the same command only scores anew.
    """
    values: dict[str, list[float]] = {}
    make_numbers = np.random.default_rng
    for name, command in finished.items():
        for seed in range(1, n_seeds + 1):
            # libraries that ask for a generator get what they ask for
            np.random.default_rng = lambda key=None, seed=seed: make_numbers(
                [*np.ravel(key), seed] if isinstance(key, int | tuple) else key
            )
            eyechart(command)
            for key, value in scores_in(Path(command[-1])):
                values.setdefault(f"{name}: {key}", []).append(value)
        np.random.default_rng = make_numbers
        run(command)
    with SPREAD.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["score", "low", "high"])
        for key, drawn in values.items():
            if min(drawn) < max(drawn):
                deviation = float(np.std(drawn))
                table.writerow([key, min(drawn) - deviation, max(drawn) + deviation])


def read_spread() -> dict[str, tuple[float, float]]:
    with SPREAD.open(encoding="utf-8", newline="") as file:
        return {
            row["score"]: (float(row["low"]), float(row["high"])) for row in csv.DictReader(file)
        }


def differences(name: str, after: Mapping[str, float]) -> list[str]:
    """Return a line for each recorded number of a run that is missing or another one now."""
    suite = "demo" if name in DEMO else "data"
    spread = read_spread()
    lines = []
    for key, value in read(RECORDED[suite]).items():
        # the version of a format is no number of the run
        if run_of(key) != name or key.endswith("results.json schema"):
            continue
        if key not in after:
            lines.append(f"missing: {key}")
        elif not is_same(value, after[key], limit_of(key)):
            low, high = spread.get(key, (math.inf, -math.inf))
            if not low <= after[key] <= high:
                lines.append(f"{key}: {value!r} was, {after[key]!r} is")
    return lines


def limit_of(key: str) -> float:
    """Return by how much a number may differ from the recorded one."""
    if not re.search("/ece|/confidence$", key):
        return ROUNDING
    return NETWORK_ROUNDING if run_of(key).endswith("network") else TOY_ROUNDING


def is_same(before: float, after: float, limit: float) -> bool:
    """Return whether two numbers are equal but for rounding, or both undetermined."""
    return before == after or abs(before - after) <= limit or (before != before and after != after)


if __name__ == "__main__":
    sys.exit(main())
