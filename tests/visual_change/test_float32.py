"""How far VIF in float32 is from float64, on pictures that make it hard and on photographs."""

from functools import cache

import numpy as np
import pytest

import eyechart as ec
from hard_images import (
    HARD_IMAGES,
    corrupted_copies,
    eight_bits,
    image,
    oblique_grating,
)
from real_images import NAMES

# a slope does not vary within windows, and where it runs along an axis its covariance is singular
WITHOUT_MEANING = ("faintly graded sky", "graded sky", "graded sky with faint noise", "slope")
MEASURABLE = [name for name in (*HARD_IMAGES, *NAMES) if name not in WITHOUT_MEANING]
DTYPES = ("float32", "float64")

# where a slope is even, a band is constant but not zero: its variance is all rounding
EVENLY_GRADED = {
    name: 2e-4 for name in ("evenly graded sky over land", "sky evenly graded across over land")
}


@cache
def both_types(name, ruler="vif"):
    """The change of every corrupted copy of a picture, in float32 and in float64."""
    clean = HARD_IMAGES[name]() if name in HARD_IMAGES else eight_bits(image(name))
    corrupted = np.stack(list(corrupted_copies(clean).values()))[..., None]
    return [ec.measure_change(clean, corrupted, ruler=ruler, dtype=dtype) for dtype in DTYPES]


@pytest.mark.parametrize("ruler", ["vif", "sheikh2006"])
@pytest.mark.parametrize("name", MEASURABLE)
def test_float32_is_close_to_float64(name, ruler):
    single, double = both_types(name, ruler)
    margin = EVENLY_GRADED.get(name, 1e-6)
    assert single.measurable.all()
    assert not single.ill_conditioned.any()
    np.testing.assert_allclose(single.vif, double.vif, rtol=0, atol=margin)
    np.testing.assert_allclose(single.delta_v, double.delta_v, rtol=0, atol=margin)
    assert (single.vif != double.vif).any()


@pytest.mark.parametrize("name", EVENLY_GRADED)
def test_rounding_in_an_even_slope_does_not_decide_the_value(name):
    clean = HARD_IMAGES[name]()
    for corrupted in corrupted_copies(clean).values():
        turned = ec.vif(clean.T, corrupted.T)
        assert turned == pytest.approx(ec.vif(clean, corrupted), abs=1e-6)


@pytest.mark.parametrize("name", WITHOUT_MEANING)
def test_images_without_meaning_have_none_in_either_type(name):
    for change in both_types(name):
        assert not change.measurable.any()
        assert np.isnan(change.delta_v).all()


@pytest.mark.parametrize(("period", "slope"), [(9.1, 0.3), (13.3, 0.1), (30, 0.77)])
def test_an_oblique_grating_is_recomputed_in_float64_and_flagged(period, slope):
    grating = oblique_grating(period, slope)
    corrupted = np.stack(list(corrupted_copies(grating).values()))[..., None]
    single, double = (ec.measure_change(grating, corrupted, dtype=t) for t in DTYPES)
    for change in (single, double):
        assert change.ill_conditioned.all()
        assert change.measurable.all()
    np.testing.assert_allclose(single.vif, double.vif, rtol=0, atol=1e-9)


@pytest.mark.parametrize("place", [0, 2])
def test_among_other_images_only_the_ill_conditioned_one_is_recomputed(place):
    cleans = [eight_bits(image(name)) for name in NAMES[:3]]
    cleans[place] = oblique_grating(9.1, 0.3)
    noisy = [corrupted_copies(clean)["noise 10"] for clean in cleans]
    batches = [np.stack(each)[..., None] for each in (cleans, noisy)]
    single, double = (ec.measure_change(*batches, dtype=t) for t in DTYPES)
    statistics = ec.clean_statistics(batches[0], dtype="float32")
    expected = np.arange(3) == place
    np.testing.assert_array_equal(single.ill_conditioned, expected)
    np.testing.assert_array_equal(statistics.ill_conditioned, expected)
    # float32 itself is never as close as this
    assert (abs(single.vif - double.vif) < 1e-12).tolist() == expected.tolist()
    np.testing.assert_allclose(single.vif, double.vif, rtol=0, atol=1e-6)
    reused = ec.vif(statistics, batches[1], dtype="float32")
    np.testing.assert_allclose(reused, single.vif, rtol=1e-12)
