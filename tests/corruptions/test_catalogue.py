"""Listing and describing what there is."""

import subprocess
import sys

import pytest

import eyechart as ec
from eyechart.corruptions.suites.published import PUBLISHED

COUNTS = {
    "imagenet-c": 15,
    "imagenet-c-extra": 5,
    "vcr": 14,
    "noc-candidates": 23,
    "geometry": 6,
    "imagenet-noc": 8,
}


@pytest.mark.parametrize("suite", PUBLISHED)
def test_every_suite_has_its_published_number_of_corruptions(suite):
    names = ec.list_corruptions(suite)
    assert len(names) == len(set(names)) == COUNTS[suite]


def test_without_a_suite_every_corruption_is_listed_once():
    names = ec.list_corruptions()
    assert len(names) == len(set(names)) == 15 + 5 + 14 + 23 + 6


def test_bare_names_are_those_of_imagenet_c():
    bare = [name for name in ec.list_corruptions() if "/" not in name]
    assert bare == ec.list_corruptions("imagenet-c") + ec.list_corruptions("imagenet-c-extra")


def test_a_family_is_a_kind_or_a_published_group():
    assert ec.list_corruptions("imagenet-c", "weather") == ["snow", "frost", "fog", "brightness"]
    assert ec.list_corruptions("imagenet-c", family="noise") == [
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
    ]
    assert "brightness" in ec.list_corruptions("imagenet-c", "color")
    assert ec.list_corruptions("imagenet-c-extra", "occlusion") == []


def test_unknown_suites_and_families_get_a_suggestion():
    with pytest.raises(ec.UsageError, match="Did you mean 'weather'"):
        ec.list_corruptions(family="wether")
    with pytest.raises(ec.UsageError, match="Did you mean 'imagenet-c'"):
        ec.list_corruptions("imagenetc")


def test_a_suite_of_ones_own_is_listed(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ntitle: Mine\nsource: me\ncorruptions:\n"
        "  - {name: grain, function: gaussian_noise, group: film, path: {sigma: [0.01, 0.1]}}\n"
    )
    assert ec.list_corruptions(str(path)) == ["grain"]
    assert ec.list_corruptions(str(path), "film") == ["grain"]


def test_a_description_has_the_published_table():
    about = ec.describe_corruption("gaussian_noise")
    assert about.severities == {"sigma": (0.08, 0.12, 0.18, 0.26, 0.38)}
    assert (about.suite, about.group, about.family) == ("imagenet-c", "noise", "noise")
    assert about.parameters[0].name == "sigma"
    assert "Hendrycks" in about.source
    assert about.monotone
    assert not about.geometric


def test_a_description_reads_well():
    text = str(ec.describe_corruption("gaussian_noise"))
    assert "sigma: 0 to 1 fraction of full scale; standard deviation" in text
    assert "0.18" in text
    assert "does not grow" in str(ec.describe_corruption("saturate"))
    assert "to a random hue" in str(ec.describe_corruption("vcr/hue_saturation_value"))


@pytest.mark.parametrize("name", ec.list_corruptions())
def test_every_corruption_is_described(name):
    about = ec.describe_corruption(name)
    assert about.name == name
    assert about.summary.endswith(".")
    assert about.source
    assert all(parameter.meaning for parameter in about.parameters)
    assert about.severities or about.towards_draw
    assert name in str(about)
    for variant in about.variants:
        assert ec.describe_corruption(name, variant).variant == variant


def test_geometric_corruptions_say_so():
    assert ec.describe_corruption("noc/rotation").geometric
    assert not ec.describe_corruption("fog").geometric


def test_importing_is_quick_and_changes_nothing():
    code = (
        "import sys, random; state = random.getstate(); import eyechart;"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules;"
        "assert random.getstate() == state;"
        "import torch; before = torch.get_num_threads(), torch.random.get_rng_state();"
        "from eyechart import corrupt;"
        "assert torch.get_num_threads() == before[0];"
        "assert torch.equal(torch.random.get_rng_state(), before[1])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_public_names_are_there():
    for name in ec.__all__:
        assert getattr(ec, name) is not None
        assert name in dir(ec)
    with pytest.raises(AttributeError, match="no attribute 'corupt'"):
        _ = ec.corupt


def test_a_variant_is_not_called_another_variant_of_itself():
    assert "Other variants: paper" in str(ec.describe_corruption("noc/shear"))
    assert "Other variants" not in str(ec.describe_corruption("noc/shear", variant="paper"))
