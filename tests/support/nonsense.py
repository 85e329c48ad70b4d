"""Calls of the public functions that make no sense: one argument of a good call is replaced."""

import inspect
import linecache
import time
import traceback
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import eyechart as ec
import small_models
from eyechart.core.storage.shards import Shard
from eyechart.pipeline.evaluate import run_shard
from eyechart.pipeline.settings import EvaluateSettings

PACKAGE = str(Path(ec.__file__).parent)
SECONDS = 5
"""Of computing: machines that test are busy."""

VALUES = {
    "None": None, "True": True, "-1": -1, "0": 0, "3": 3, "10^9": 10**9, "10^30": 10**30,
    "a number of 5,000 digits": 10**5000, "0.5": 0.5, "-0.5": -0.5, "1e300": 1e300,
    "nan": float("nan"), "inf": float("inf"), "1j": 1j, "empty text": "", "fog": "fog",
    "text of a number": "3", "long text": "x" * 100_000, "text with NUL": "a\0b", "bytes": b"fog",
    "surrogate": "\ud800", "missing path": Path("no/such/file"), "empty list": [], "[1]": [1],
    "[nan]": [float("nan")], "['fog']": ["fog"], "[None]": [None], "ragged list": [[1], [2, 3]],
    "nested list": [[[[1]]]], "tuple": (1, 2), "(2, 1)": (2, 1), "empty dict": {},
    "{5: 0.5}": {5: 0.5},
    "{'fog': 'x'}": {"fog": "x"}, "{'fog': 0.5}": {"fog": 0.5}, "{'fog': [0.5]}": {"fog": [0.5]},
    "{'fog': nan}": {"fog": float("nan")}, "{'fog': {}}": {"fog": {}}, "set": {1, 2},
    "range": range(3), "object": object(), "type": int, "function": len,
    "failing function": lambda *given: 1 / 0, "generator": (n for n in range(3)),
    "Decimal NaN": Decimal("NaN"), "Fraction": Fraction(1, 3), "slice": slice(2), "...": ...,
    "array of text": np.array(["a", "b"]), "empty array": np.empty(0),
    "array (2, 0)": np.zeros((2, 0)),
    "array of NaN": np.full((3, 3), np.nan), "array of objects": np.array([None, {}], dtype=object),
    "array of complex": np.array([1j]), "array of times": np.array(["2020-01-01"], "datetime64[D]"),
    "structured array": np.zeros(2, [("a", "f4")]), "wide array": np.zeros((1, 1, 1, 1, 1)),
    "image array": np.zeros((16, 16, 3), np.uint8), "NumPy nan": np.float64("nan"),
    "NumPy truth": np.bool_(True), "NumPy int": np.int64(7), "empty tensor": torch.empty(0),
    "complex tensor": torch.tensor(1j), "meta tensor": torch.empty(3, 8, 8, device="meta"),
    "sparse tensor": torch.eye(3).to_sparse(), "tensor": torch.rand(2, 3, 16, 16),
    "PIL image": Image.new("RGBA", (9, 9)), "device": torch.device("cpu"),
}  # fmt: skip
"""What is put in the place of an argument, by what it is called in a failure."""


@dataclass(frozen=True)
class Call:
    """A public function, or a method of what one returns, with arguments that work."""

    function: object
    arguments: dict = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        found = inspect.signature(self.function).parameters.values()
        names = [own.name for own in found if own.kind not in (own.VAR_POSITIONAL, own.VAR_KEYWORD)]
        return [*names, "surplus"]


def good_calls(home: Path) -> dict[str, Call]:
    """Return a call that works for every public function, and for methods of what they return."""
    levels = np.random.default_rng(0).integers(0, 256, (2, 24, 24, 3), dtype=np.uint8)
    other = ec.corrupt(levels, "gaussian_noise", severity=2)
    change = np.tile(np.linspace(0.01, 0.99, 60), 2)
    fitted = {"delta_v": change, "hits": (change < 0.6).astype(float), "bins": 6, "min_per_bin": 2}
    fitted["n_bootstrap"] = 4
    curve = ec.fit_curve(**fitted)
    matrix = ec.overlap_matrix([[0.1, 0.2], [0.5, 0.3], [0.2, 0.6]], ["fog", "frost"])
    images = small_models.save_images(home / "images", each=1, side=24)
    drawn = {"images": images, "n": 4, "corruptions": ["brightness"], "stimulus": "native"}
    testset = ec.sample_testset(**drawn)
    testset.save(home / "testset.parquet")
    asked = {**drawn, "model": small_models.colors, "n": 12, "humans": None, "out": home / "run"}
    asked |= {"n_bootstrap": 3, "bins": 3, "min_per_bin": 1}
    evaluation = ec.evaluate(**asked)
    evaluation.save(home / "saved")
    ec.write_results(evaluation, home / "run")
    shard = {"images": small_models.save_images(home / "tints", 1), "out": home / "split"}
    run_shard(EvaluateSettings(**{**asked, **shard, "shard": Shard(1, 1), "stimulus": "native"}))
    errors, hits = {"fog": 0.4}, np.tile([1.0, 0, 1], 4)
    resampled = {"errors": {"fog": np.array([0.4, 0.5])}, "baseline": {"fog": 0.8}}
    (home / "rules.yaml").write_text("rules:\n- name: floor\n  corruptions: all\n  at_least: 0.1\n")
    (home / "severities.csv").write_text("model,corruption,severity,accuracy\n")
    calls = {
        "Corrupt": {"names": "fog", "severity": 2, "p": 0.5},
        "check_same_baseline": {"results": [ec.corruption_error(errors, "alexnet")]},
        "clean_statistics": {"clean": levels},
        "corrupt": {"images": levels, "name": "fog", "severity": 2},
        "corruption_error": {"errors": errors, "baseline": "alexnet", "clean": 0.3},
        "delta_v": {"clean": levels, "corrupted": other},
        "describe_corruption": {"name": "fog"},
        "sample_testset": drawn,
        "draw_curves": {"results": evaluation, "out": home / "curves"},
        "error_consistency": {"first": hits, "second": hits[::-1], "n_bootstrap": 5},
        "error_consistency_of_humans": {"humans": [hits, hits[::-1]], "n_bootstrap": 5},
        "error_consistency_with_humans": {"model": hits, "humans": [hits], "n_bootstrap": 5},
        "evaluate": asked,
        "fit_curve": fitted,
        "gate": {"new": home / "run", "rules": home / "rules.yaml"},
        "hmri": {"human_curve": curve, "model_curve": curve},
        "list_corruptions": {},
        "load": {"folder": home / "saved"},
        "load_images": {"source": images, "stimulus": "native"},
        "load_model": {"spec": small_models.colors},
        "mean_corruption_error": {"errors": errors, "baseline": "alexnet", "corruptions": ["fog"]},
        "mean_corruption_error_replicates": resampled,
        "measure_change": {"clean": levels, "corrupted": other},
        "measured_baseline": {"name": "mine", "errors": errors},
        "merge": {"out": home / "split"},
        "mrsi": {"human_curve": curve, "model_curve": curve},
        "overlap_matrix": {"robustness": [[0.1, 0.2], [0.5, 0.3], [0.2, 0.6]]},
        "published_tables": {},
        "read_severity_errors": {"path": home / "severities.csv"},
        "read_testset": {"path": home / "testset.parquet"},
        "select_non_overlapping": {"matrix": matrix, "threshold": 5.0},
        "vif": {"clean": levels, "corrupted": other},
        "write_results": {"results": evaluation, "out": home / "results"},
    }
    found = {name: Call(getattr(ec, name), own) for name, own in calls.items()}
    again = ec.mean_corruption_error_replicates(**resampled)
    model = ec.load_model(small_models.colors)
    transform = ec.Corrupt("fog")
    return found | {
        "compare": Call(partial(ec.compare, evaluation), {}),
        "Corrupt.arguments": Call(transform.arguments, {"images": levels}),
        "Corrupt.set_epoch": Call(transform.set_epoch, {"epoch": 3}),
        "Results.to_latex": Call(evaluation.to_latex, {"score": "r_a"}),
        "Results.predictions": Call(evaluation.predictions, {"space": None}),
        "Curve.interval": Call(curve.interval, {"level": 0.9}),
        "Curve.band": Call(curve.band, {"delta_v": 0.5}),
        "Curve()": Call(curve.__call__, {"delta_v": 0.5}),
        "Curve.smoothed": Call(curve.smoothed, {"smoothing": 0.1}),
        "Model()": Call(model.__call__, {"images": levels}),
        "OverlapMatrix.only": Call(matrix.only, {"names": ["fog"]}),
        "OverlapMatrix.place": Call(matrix.place, {"name": "fog"}),
        "ResampledErrors.interval": Call(again.interval, {"level": 0.9}),
        "TestSet.count": Call(testset.count, {"corruption": "vcr/brightness"}),
        "TestSet.coverage": Call(testset.coverage, {"min_per_bin": 1}),
        "TestSet.only": Call(testset.only, {"corruptions": ["brightness"]}),
        "TestSet.save": Call(testset.save, {"path": home / "again.parquet"}),
    }


def complaint(call: Call, argument: str, value: object) -> str:
    """Return what is wrong with how a call with a nonsense argument ends, "" if nothing is."""
    start = time.process_time()
    try:
        call.function(**{**call.arguments, argument: value})
    except (TypeError, ValueError) as error:
        text = str(error)
        if _is_of_the_call(error):
            return ""
        if not _is_ours(error):
            return "".join(traceback.format_exception(error))[-1500:]
        if "\n" in text or not text.endswith((".", "?")) or len(text) > 2000:
            return f"{text[:300]!r} is no short sentence"
    except Exception as error:
        return "".join(traceback.format_exception(error))[-1500:]
    took = time.process_time() - start
    return f"it took {took:.1f} s" if took > SECONDS else ""


def _is_of_the_call(error: Exception) -> bool:
    """Whether Python itself refused an argument that the function does not have."""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename).name == "nonsense.py"


def _is_ours(error: Exception) -> bool:
    """Whether the package raised it by itself."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if isinstance(error, ec.UsageError):
        return True
    line = linecache.getline(last.filename, last.lineno).strip()
    return last.filename.startswith(PACKAGE) and line.startswith("raise ")
