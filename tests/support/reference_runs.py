"""Scores of six runs, recorded before the code was laid out anew: do they stay the same?

    EYECHART_TEST_DATA=FOLDER python tests/support/reference_runs.py FOLDER [RUN ...] [--record]

Not a test: it takes a quarter of an hour. The demo, a VCR run of 60 images with humans, an
ImageNet-C run, an overlap study with what follows from it, and two structure studies are made in
FOLDER by commands (what is there already is kept), and all values and intervals are compared with
those in `tests/data/reference_runs.csv`. RUN chooses some of them; with --record their rows are
replaced, and those of other runs stay as they are.

Values must be equal. So must intervals, except those of structure studies: they are resampled with
other random numbers than in the recorded runs. They must lie where the recorded code puts them with
400 other seeds, between the ends in `tests/data/reference_spread.csv`, which --spread 400 wrote.
"""

import argparse
import csv
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

RECORDED = Path(__file__).parents[1] / "data" / "reference_runs.csv"
SPREAD = RECORDED.with_name("reference_spread.csv")
ROUNDING = 1e-12
MODELS = ("efficientnet_lite0", "efficientnet_lite1")
CURVES = ("--bins", "11", "--min-per-bin", "5", "--n-bootstrap", "300")
TRAINING = ("--stimulus", "native", "--arch", "resnet9", "--lr", "0.05")
TINTS = {"blue": (-60, -60, 60), "green": (-60, 60, -60), "red": (60, -60, -60)}
NOISES = ("vcr/gaussian_noise", "vcr/impulse_noise")

ENDS = ("value", "low95", "high95")

Scores = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--spread", type=int, metavar="SEEDS")
    arguments = parser.parse_args()
    home = arguments.folder.resolve()
    inputs = home / "inputs"
    make_inputs(Path(os.environ["EYECHART_TEST_DATA"]) / "data", inputs)
    runs = arguments.runs or list(commands(inputs))
    scores: Scores = {}
    for name in runs:
        out = home / name
        if not (out / "done").exists():
            run([*commands(inputs)[name], "--out", str(out)])
            for command in follow_ups(out) if name == "overlap" else ():
                run(command)
            (out / "done").touch()
        scores |= {f"{name}: {key}": value for key, value in scores_in(out)}
    if arguments.spread:
        write_spread(
            {name: [*commands(inputs)[name], "--out", str(home / name)] for name in runs},
            arguments.spread,
        )
        return 0
    recorded = read()
    others = {key: value for key, value in recorded.items() if key.split(":")[0] not in runs}
    if arguments.record:
        write(others | scores)
        return 0
    return compare({key: recorded[key] for key in recorded if key not in others}, scores)


def run(command: list[str]) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "eyechart", *command], check=True, env=environment)


def commands(inputs: Path) -> dict[str, list[str]]:
    """Return the arguments of each run by its name."""
    photos, kinds = inputs / "photos.csv", inputs / "kinds.csv"
    few = ("--epochs", "3", "--batch-size", "16")
    return {
        "vcr": ["evaluate", *MODELS, "--images", str(photos), "--n", "150", *CURVES],
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
        "demo": ["demo"],
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


def make_inputs(data: Path, inputs: Path) -> None:
    """Choose 60 photographs of 13 categories, and draw waves and tinted patches."""
    if (inputs / "kinds.csv").exists():
        return
    inputs.mkdir(parents=True, exist_ok=True)
    choose_images(data / "photos", inputs / "photos.csv")
    draw_waves(inputs / "waves" / "train", 60, seed=1)
    draw_waves(inputs / "waves" / "test", 40, seed=2)
    (inputs / "noises.yaml").write_text(
        "name: noises\ntitle: Two noises\nsource: drawn\ncorruptions:\n"
        + "".join(f"  - same_as: vcr:{name}\n" for name in NOISES)
    )
    draw_kinds(inputs)


def choose_images(photos: Path, path: Path) -> None:
    with (photos / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["category16"]]
    chosen: list[dict[str, str]] = []
    for row in rows:
        same = sum(other["category16"] == row["category16"] for other in chosen)
        if row["imagenet_index"] not in ("", "-1") and same < 6:
            chosen.append(row)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "label"])
        table.writerows([photos / row["path"], row["wnid"]] for row in chosen[:60])


def draw_waves(folder: Path, n_images: int, seed: int, side: int = 20) -> None:
    """Draw stripes, checks and rings of random color, contrast, width and phase.

    Mirror images are of the same class, since training mirrors.
    """
    numbers = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side] - (side - 1) / 2
    for label in ("across", "checks", "down", "rings"):
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(n_images):
            phase, width = numbers.uniform(0, 2 * np.pi), numbers.uniform(4, 7)
            across, down, rings = (
                np.sin(2 * np.pi * distance / width + phase)
                for distance in (rows, columns, np.hypot(rows, columns))
            )
            wave = {"across": across, "checks": across * down, "down": down, "rings": rings}[label]
            noise = numbers.normal(0, 6, (side, side, 3))
            contrast = numbers.uniform(25, 60)
            levels = numbers.uniform(80, 175, 3) + contrast * wave[..., None] + noise
            path = folder / label / f"{number}.png"
            Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(path)


def draw_kinds(inputs: Path) -> None:
    """Draw patches of random brightness, tinted by class, in three styles and subclasses."""
    (inputs / "kinds").mkdir()
    with (inputs / "kinds.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "style", "subclass"])
        kinds = [
            (label, style, subclass)
            for label in TINTS
            for style in ("inverted", "pale", "plain")
            for subclass in ("calm", "wild", "odd")
            for _ in range(5)
        ]
        for number, (label, style, subclass) in enumerate(kinds):
            light = np.random.default_rng([2, number]).uniform(70, 185, (4, 4, 1))
            levels = (light + np.array(TINTS[label])).clip(0, 255)
            if style != "plain":
                levels = 255 - levels if style == "inverted" else 0.7 * levels + 0.3 * 255
            path = inputs / "kinds" / f"{number}.png"
            Image.fromarray(levels.astype(np.uint8).repeat(5, 0).repeat(5, 1)).save(path)
            table.writerow([path, label, style, f"{label}-{subclass}"])


def scores_in(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield every value and interval of a run by its name."""
    if (folder / "scores.parquet").exists():
        for row in pq.read_table(folder / "scores.parquet").to_pylist():
            name = " ".join(row[part] for part in ("model", "space", "corruption", "score"))
            for end in ("value", "low95", "high95", "low83", "high83"):
                yield f"{name} {end}", row[end]
        for row in json.loads((folder / "results.json").read_text("utf-8"))["agreements"]:
            name = f"kappa {row['space']} {row['first']} {row['second']}"
            ends = (row["kappa"]["value"], *row["kappa"]["interval95"])
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
        yield from numbers_in(content, path.name)


def numbers_in(value: object, name: str) -> Iterator[tuple[str, float]]:
    """Yield all numbers within plain values, named by where they are."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, f"{name} {key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from numbers_in(inner, f"{name} {index}")
    elif not isinstance(value, bool):
        try:
            yield name, float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return


def write(scores: Scores) -> None:
    with RECORDED.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["score", "value"])
        table.writerows(
            (name, repr(float(value))) for name, value in scores.items() if value is not None
        )


def read() -> Scores:
    with RECORDED.open(encoding="utf-8", newline="") as file:
        return {row["score"]: float(row["value"]) for row in csv.DictReader(file)}


def write_spread(finished: dict[str, list[str]], n_seeds: int) -> None:
    """Score finished runs with other bootstrap seeds, and write the range of what moves.

    `finished`: the arguments of each, with its folder; the same command only scores anew.
    """
    from eyechart.cli.app import main as eyechart

    values: dict[str, list[float]] = {}
    make_numbers = np.random.default_rng
    for name, command in finished.items():
        for seed in range(1, n_seeds + 1):
            # libraries that ask for a generator get what they ask for
            np.random.default_rng = lambda key=None, seed=seed: make_numbers(
                [*np.ravel(key), seed] if isinstance(key, int | tuple) else key
            )
            with redirect_stdout(io.StringIO()):
                try:
                    eyechart(list(command))
                except SystemExit as end:
                    assert not end.code
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


def compare(before: Scores, after: Scores) -> int:
    """Print what differs, by kind of score, and return 1 if values do or something is missing."""
    missing = [name for name in before if name not in after]
    differing = {
        name: abs(after[name] - value)
        for name, value in before.items()
        if name in after
        and after[name] != value
        and not (math.isnan(value) and math.isnan(after[name]))
        and not abs(after[name] - value) <= ROUNDING
    }
    spread = read_spread()
    resampled = {
        name
        for name in differing
        if name in spread and spread[name][0] <= after[name] <= spread[name][1]
    }
    wrong = {name: value for name, value in differing.items() if name not in resampled}
    print(
        f"{len(before)} numbers, {len(missing)} missing; {len(differing)} differ, of which"
        f" {len(resampled)} are interval ends within Monte-Carlo error"
    )
    for name in missing[:20]:
        print(f"missing: {name}")
    for name, difference in sorted(wrong.items(), key=lambda pair: -pair[1])[:40]:
        print(f"{difference:.3g}: {name}: {before[name]!r} was, {after[name]!r} is")
    return int(bool(missing or wrong))


if __name__ == "__main__":
    sys.exit(main())
