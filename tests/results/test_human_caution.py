"""What is said before a model is called ahead of the packaged human reference."""

import pytest

from eyechart.results.published_results import implied_areas, packaged_areas, packaged_caution


def test_the_packaged_reference_is_below_the_crowd_that_the_paper_implies():
    """R (1 − MRSI) / HMRI of the first row of Table 3 for each corruption."""
    implied = implied_areas()
    assert implied["median_blur"] == pytest.approx(0.532 / 0.635, abs=0.002)
    assert implied["glass_blur"] == pytest.approx(0.468 * (1 - 0.003) / 0.569, abs=0.002)
    assert implied["frost"] == pytest.approx(0.429 * (1 - 0.011) / 0.521, abs=0.002)
    own = packaged_areas()
    assert set(own) == {"median_blur", "glass_blur"}
    assert all(f"{area:.3f}" == "0.679" for area in own.values())
    told = packaged_caution({})
    assert "median blur 0.679 against 0.837; glass blur 0.679 against 0.820" in told
