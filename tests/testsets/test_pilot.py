"""Pilot sampling: strengths that spread expected visual change evenly, without a search."""

import numpy as np
import pytest
import torch

from eyechart.core.progress import no_advance
from eyechart.images.image_sources import SOURCE, demo_images
from eyechart.images.imageset import load_listed
from eyechart.testsets.pilot import PilotMap, _fit_map, count_pilots, measure_maps, with_strengths
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples
from eyechart.testsets.testset import make_testset

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images():
    return load_listed(demo_images(), SOURCE, "96")


def plan(n=60, **options):
    return Plan(
        "vcr", n, sampling="pilot", corruptions=("gaussian_noise", "motion_blur"), **options
    )


def test_a_map_is_the_inverse_of_expected_visual_change():
    found = PilotMap(severity=(0.0, 1.0, 5.0), delta_v=(0.0, 0.8, 1.0), highest=1.0)
    places = found.severities(np.array([0.0, 0.4, 0.8, 0.9, 1.0]))
    np.testing.assert_allclose(places, [0, 0.5, 1, 3, 5], atol=1e-6)
    flat = PilotMap(severity=(0.0, 5.0), delta_v=(0.3, 0.3), highest=0.3)
    np.testing.assert_allclose(flat.severities(np.array([0.0, 0.5, 1.0])), [0, 2.5, 5])


def test_changes_beyond_the_largest_expected_one_get_the_strongest_severity():
    found = PilotMap(severity=(0.0, 5.0), delta_v=(0.0, 0.6), highest=0.8)
    places = found.severities(np.array([0.0, 0.375, 0.75, 0.9, 1.0]))
    np.testing.assert_allclose(places, [0, 2.5, 5, 5, 5], atol=1e-6)
    severity = np.linspace(0, 5, 11)
    assert _fit_map(severity, severity / 10).highest == pytest.approx(0.5)
    scattered = _fit_map(severity, severity / 10 + np.tile([0.1, -0.1], 6)[:11])
    assert 0.6 < scattered.highest <= 1


def test_a_map_never_falls_and_ignores_what_cannot_be_measured():
    severity = np.array([0.0, 1, 2, 3, 4, 5])
    found = _fit_map(severity, np.array([0.0, 0.5, 0.3, np.nan, 0.9, 0.8]))
    assert found.severity == (0, 1, 2, 4, 5)
    assert found.delta_v == pytest.approx((0, 0.4, 0.4, 0.85, 0.85))
    assert _fit_map(severity, np.full(6, np.nan)).delta_v == (0, 0)


def test_pilot_samples_count_as_samples_and_keep_their_strengths(images):
    made = plan()
    maps = measure_maps(images, made, CPU, no_advance)
    groups = with_strengths(images, plan_samples(images, made), made, maps)
    assert [len(samples) for samples in groups[1:]] == [60, 60]
    assert count_pilots(images, made) == 2 * 20
    for samples in groups[1:]:
        known = np.array(maps[samples.name].severity)
        # each severity of the map is that of one sample
        assert np.isin(np.round(known, 9), np.round(samples.severity, 9)).all()
        assert not np.isnan(samples.severity).any()


def test_samples_depend_on_the_seed_only(images):
    def severities(seed):
        made = plan(seed=seed)
        maps = measure_maps(images, made, CPU, no_advance)
        return [
            samples.severity
            for samples in with_strengths(images, plan_samples(images, made), made, maps)
        ]

    one, again, other = severities(1), severities(1), severities(2)
    for first, second, third in zip(one[1:], again[1:], other[1:], strict=True):
        np.testing.assert_array_equal(first, second)
        assert (first != third).any()


def test_visual_change_is_covered_evenly(images, tmp_path):
    """At most half as uneven as the paper's sampling, and nine of ten bins have samples."""
    unevenness = {}
    for sampling in ("pilot", "parameters"):
        made = Plan("vcr", 150, sampling=sampling, corruptions=("gaussian_noise",))
        table = make_testset(images, made, CPU, tmp_path / sampling, no_advance).table
        delta_v = np.array(table["delta_v"].to_pylist(), dtype=float)
        corrupted = delta_v[np.array(table["corruption"].to_pylist()) != "clean"]
        counts, _ = np.histogram(corrupted, bins=13, range=(0, np.nanmax(corrupted)))
        unevenness[sampling] = counts.std() / counts.mean()
        if sampling == "pilot":
            assert (counts > 0).mean() >= 0.9
    assert unevenness["pilot"] < unevenness["parameters"] / 2


def test_published_levels_and_geometric_corruptions_have_no_pilot(images):
    made = Plan("imagenet-c", 60, corruptions=("fog",))
    assert count_pilots(images, made) == 0 and made.is_at_levels
    assert measure_maps(images, made, CPU, no_advance) == {}
