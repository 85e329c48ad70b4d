"""Scores of five runs, recorded before the code was laid out anew: do they stay the same?

    EYECHART_TEST_DATA=FOLDER python tests/support/reference_runs.py FOLDER [--record]

Not a test: it takes a quarter of an hour. The demo, a VCR run of 60 images with humans, an
ImageNet-C run, an overlap study and two structure studies are made in FOLDER by commands (what is
there already is kept), and all values and intervals are compared with those in
`tests/data/reference_runs.csv`.
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
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

RECORDED = Path(__file__).parents[1] / "data" / "reference_runs.csv"
ROUNDING = 1e-12
MODELS = ("efficientnet_lite0", "efficientnet_lite1")
CURVES = ("--bins", "11", "--least", "5", "--replicates", "300")
TRAINING = ("--stimulus", "native", "--arch", "resnet9", "--rate", "0.05")
TINTS = {"blue": (-60, -60, 60), "green": (-60, 60, -60), "red": (60, -60, -60)}

ENDS = ("value", "low95", "high95")

Scores = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    home = arguments.folder.resolve()
    inputs = home / "inputs"
    make_inputs(Path(os.environ["EYECHART_TEST_DATA"]) / "data", inputs)
    scores: Scores = {}
    for name, command in commands(inputs).items():
        out = home / name
        if not (out / "done").exists():
            subprocess.run(
                [sys.executable, "-m", "eyechart", *command, "--out", str(out)],
                check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            (out / "done").touch()
        scores |= {f"{name}: {key}": value for key, value in scores_in(out)}
    if arguments.record:
        write(scores)
        return 0
    return compare(read(), scores)


def commands(inputs: Path) -> dict[str, list[str]]:
    """Return the arguments of each run by its name."""
    photos, cifar, kinds = inputs / "photos.csv", inputs / "cifar", inputs / "kinds.csv"
    few = ("--epochs", "3", "--batch", "16")
    return {
        "vcr": ["evaluate", *MODELS, "--images", str(photos), "--n", "150", *CURVES],
        "imagenet_c": [
            "evaluate", *MODELS, "--images", str(photos), "--suite", "imagenet-c", "--pictures",
            "15", "--baseline", MODELS[0], *CURVES,
        ],
        "overlap": [
            "overlap", "run", "--train-images", str(cifar / "train"), "--images",
            str(cifar / "test"), "--suite", "noc-candidates", "--corruption", "noc/gaussian",
            "--corruption", "noc/blur", "--corruption", "noc/contrast", *TRAINING, "--epochs", "2",
            "--batch", "64",
        ],
        "structure": ["structure", "style", "--images", str(kinds), *TRAINING, *few],
        "subclass": [
            "structure", "subclass", "--images", str(kinds), *TRAINING, *few, "--folds", "3",
        ],
        "demo": ["demo"],
    }  # fmt: skip


def make_inputs(data: Path, inputs: Path) -> None:
    """Choose 60 photographs of 13 categories, 800 images of CIFAR-10, and draw tinted patches."""
    if (inputs / "kinds.csv").exists():
        return
    inputs.mkdir(parents=True, exist_ok=True)
    choose_photographs(data / "photos", inputs / "photos.csv")
    for part, count in (("train", 600), ("test", 200)):
        table = pq.read_table(data / f"cifar10_jpeg_{part}.parquet")
        # rows are sorted by class
        spread = np.arange(count) * (table.num_rows // count)
        save_cifar(table.take(spread).to_pylist(), inputs / "cifar" / part)
    draw_kinds(inputs)


def choose_photographs(photos: Path, path: Path) -> None:
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


def save_cifar(rows: list[dict[str, object]], folder: Path) -> None:
    for number, row in enumerate(rows):
        label = next(value for key, value in row.items() if "label" in key)
        image = next(value for value in row.values() if isinstance(value, bytes | dict))
        levels = image["bytes"] if isinstance(image, dict) else image
        path = folder / f"c{label}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.open(io.BytesIO(levels)).convert("RGB").save(path)


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


def compare(before: Scores, after: Scores) -> int:
    """Print what differs, by kind of score, and return 1 if values do or something is missing."""
    missing = [name for name in before if name not in after]
    differing = {
        name: abs(after[name] - value)
        for name, value in before.items()
        if name in after
        and not (math.isnan(value) and math.isnan(after[name]))
        and not abs(after[name] - value) <= ROUNDING
    }
    print(f"{len(before)} numbers, {len(missing)} missing, {len(differing)} differ")
    for name in missing[:20]:
        print(f"missing: {name}")
    for name, difference in sorted(differing.items(), key=lambda pair: -pair[1])[:40]:
        print(f"{difference:.3g}: {name}: {before[name]!r} was, {after[name]!r} is")
    return int(bool(missing or differing))


if __name__ == "__main__":
    sys.exit(main())
