"""The measurement behind the table of coverages in docs/how-to/testsets.md, on two images."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from skimage import data

from benchmarks.coverage import CONDITIONS, Condition, entries_of, measure, read_images, run


@pytest.fixture
def folder(tmp_path):
    Image.fromarray(data.astronaut()[:320, :400]).save(tmp_path / "astronaut.jpg")
    Image.fromarray(data.coffee()[:240, :230]).save(tmp_path / "coffee.jpg")
    return tmp_path


def test_every_condition_is_measured_on_as_many_samples_as_asked(folder, tmp_path):
    out = tmp_path / "coverage.json"
    run(folder, "cpu", 4, out)
    histograms = json.loads(out.read_text())
    assert list(histograms) == [condition.title for condition in CONDITIONS]
    for condition in CONDITIONS:
        counts = {sum(counts) for counts in histograms[condition.title].values()}
        assert counts == {4}, condition.title


def test_a_wider_domain_of_photons_has_milder_samples(folder):
    images = read_images(folder)
    narrow = Condition("", n=40)
    wide = replace(narrow, domains={"vcr/shot_noise": {"photons": (1.0, 500.0)}})
    mildest = []
    for condition in (narrow, wide):
        (entry,) = (one for one in entries_of(condition) if one.name == "vcr/shot_noise")
        mildest.append(measure(condition, entry, images, "cpu").min())
    assert mildest[1] < mildest[0] - 0.1


def test_images_of_their_own_size_are_measured_at_that_size(folder):
    images = read_images(folder)
    assert sorted(tuple(image.shape) for image in images) == [(3, 240, 230), (3, 320, 400)]
    condition = Condition("", n=6, size="original")
    (entry,) = (one for one in entries_of(condition) if one.name == "vcr/gaussian_blur")
    # in pixels of the image itself, not of one of 224 px
    assert entry.reference_side is None
    assert np.isfinite(measure(condition, entry, images, "cpu")).sum() == 6
