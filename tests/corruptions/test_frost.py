"""Frost's made textures against the published photographs, by the visual change of real images."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

import eyechart as ec
from eyechart.corruptions.suites.suite import find_entry
from eyechart.images.image_sources import demo_images
from places import DATA
from real_images import stimulus

PUBLISHED = json.loads((DATA / "frost_published.json").read_text())
SEVERITIES = (1, 2, 3, 4, 5)
MARGIN = 0.015


def images_of(source):
    """The images behind the published numbers, by name, as stimuli of 224 px."""
    names = PUBLISHED[source]
    if source == "scikit-image":
        return {name: stimulus(getattr(data, name)()) for name in names}
    pytest.importorskip("foolbox", exc_type=ImportError)
    paths = {Path(each.path).name: each.path for each in demo_images()}
    return {name: stimulus(np.asarray(Image.open(paths[name]).convert("RGB"))) for name in names}


def mean_change(images, severity, n, **options):
    """Mean Δv over images and `n` draws of frost each, `options` with one value per draw."""
    changes = []
    for name, image in images.items():
        batch = np.repeat(image[None], n, axis=0)
        keys = [f"{name} {number}" for number in range(n)]
        frosted = ec.corrupt(batch, "frost", severity=severity, keys=keys, **options)
        changes.append(ec.delta_v(image, frosted).mean())
    return np.mean(changes)


def published_change(source, severity):
    return np.mean([values[severity - 1] for values in PUBLISHED[source].values()])


@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize("source", ["scikit-image", "foolbox"])
def test_frost_changes_images_as_much_as_the_published_textures(source, severity):
    # each texture equally often, so that a few draws tell as much as many
    textures = np.tile((np.arange(5) + 0.5) / 5, 2)
    found = mean_change(images_of(source), severity, n=10, texture=textures)
    assert found == pytest.approx(published_change(source, severity), abs=MARGIN)


@pytest.mark.slow
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("source", ["scikit-image", "foolbox"])
def test_over_100_draws_frost_changes_images_as_much_as_the_published_textures(source, severity):
    found = mean_change(images_of(source), severity, n=120)
    assert found == pytest.approx(published_change(source, severity), abs=MARGIN)


def test_frost_of_other_textures_has_another_version():
    assert find_entry("frost").version == find_entry("vcr/frost").version == 2
