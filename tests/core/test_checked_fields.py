"""Results that functions return cannot be made of anything."""

import warnings
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch

import eyechart as ec
import nonsense
import small_models


@pytest.fixture(scope="module")
def returned(tmp_path_factory):
    """What the functions return, by the name of its class."""
    home = tmp_path_factory.mktemp("returned")
    images = small_models.save_images(home / "images", each=1, side=24)
    change = np.linspace(0.01, 0.99, 60)
    asked = {"images": images, "n": 12, "corruptions": ["brightness"], "stimulus": "native"}
    run = ec.evaluate(
        small_models.colors, **asked, humans=None, out=home / "run", bins=3, min_per_bin=1
    )
    found = [
        ec.fit_curve(change, (change < 0.6).astype(float), bins=6, min_per_bin=2, n_bootstrap=4),
        ec.compare(run),
        ec.sample_testset(**asked),
        ec.load_images(images, stimulus="native"),
        ec.clean_statistics(torch.rand(2, 3, 32, 32)),
    ]
    return {type(one).__name__: one for one in found}


@pytest.mark.parametrize("name", ["Curve", "Standings", "TestSet", "ImageSet", "CleanStatistics"])
def test_a_result_of_anything_is_rejected_or_can_be_shown(returned, name):
    result = returned[name]
    assert is_dataclass(result) and repr(replace(result)) == repr(result)
    n_rejected = 0
    for kind, value in nonsense.VALUES.items():
        with pytest.raises(ec.UsageError, match=rf"of {name} must be .*, got .*: use a function"):
            type(result)(**dict.fromkeys((field.name for field in fields(result)), value))
        for field in fields(result):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    changed = replace(result, **{field.name: value})
                except ec.UsageError as error:
                    assert field.name in str(error) and "\n" not in str(error), kind
                    n_rejected += 1
                    continue
                assert repr(changed).startswith(f"<{name} of") or name == "Standings", kind
    assert n_rejected > 40 * len(fields(result))


def test_a_tuple_is_a_sequence_of_any_length():
    """The replicates of curves that are fitted one by one are a tuple."""
    change = np.linspace(0.01, 0.99, 600)
    curve = ec.fit_curve(change, change < 0.6, estimator="cobs", bins=6, n_bootstrap=3)
    assert isinstance(curve.replicates, tuple) and len(curve.replicates) == 3
