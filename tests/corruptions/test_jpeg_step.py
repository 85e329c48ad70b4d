"""`--jpeg 85`: corrupted pictures as ImageNet-C's files hold them, scored as they are predicted."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import eyechart as ec
from calling import photo_levels
from commands import assert_rejected
from eyechart.testsets.plan import Plan
from eyechart.testsets.stimuli import as_jpeg
from small_models import save_images

MODEL = "small_models:pale_colors"


def through_file(pixels, quality):
    """What Pillow gives back of a file as ImageNet-C's were written."""
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, optimize=True)
    return np.asarray(Image.open(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("jpeg") / "photos", each=2)


@pytest.mark.parametrize("quality", [1, 50, 85, 100])
@pytest.mark.parametrize("size", [(224, 224), (61, 43)])
def test_pixels_are_those_of_a_file_that_pillow_wrote(quality, size):
    levels = photo_levels(*size, batch=4)
    found = as_jpeg(levels, quality)
    for own, image in zip(found, levels, strict=True):
        expected = through_file(image.permute(1, 2, 0).contiguous().numpy(), quality)
        assert (own.permute(1, 2, 0).numpy() == expected).all()


def test_pixels_and_visual_change_of_a_test_set_are_of_the_stored_image(folder):
    drawn = ec.sample_testset(
        folder, "imagenet-c", corruptions=["contrast"], stimulus="native", jpeg=85
    )
    images = ec.load_images(folder, "native")
    levels = images.batch(range(8)).permute(0, 2, 3, 1).contiguous().numpy()
    places = {digest: place for place, digest in enumerate(images.digests)}
    for row in drawn.table.to_pylist():
        clean = levels[places[row["digest"]]]
        if row["corruption"] == "clean":
            assert row["delta_v"] == 0
            continue
        corrupted = ec.corrupt(clean, "contrast", severity=row["severity"], keys=[row["digest"]])
        stored = through_file(corrupted, 85)
        assert row["delta_v"] == pytest.approx(ec.delta_v(clean, stored), abs=1e-9)
    plain = ec.sample_testset(folder, "imagenet-c", corruptions=["contrast"], stimulus="native")
    same = drawn.table["corruption"] == plain.table["corruption"]
    assert same and drawn.digest != plain.digest


def test_a_test_set_remembers_its_quality_and_renders_the_stored_images(run, folder, tmp_path):
    out = tmp_path / "t.parquet"
    small = ("--suite", "imagenet-c", "--corruption", "fog", "--stimulus", "native")
    assert (
        run("testset", "make", "--images", folder, "--out", out, *small, "--jpeg", 85).status == 0
    )
    assert ec.read_testset(out).plan.jpeg == 85
    assert "JPEG of quality 85" in run("testset", "describe", out).out
    assert run("testset", "render", out, "--images", folder, "--out", tmp_path / "pngs").status == 0


def test_an_older_test_set_without_a_quality_is_read(folder, tmp_path):
    import json

    from eyechart.core.storage.parts import read_parquet, write_parquet

    ec.sample_testset(folder, n=8, corruptions=["blur"], stimulus="native").save(
        tmp_path / "t.parquet"
    )
    table = read_parquet(tmp_path / "t.parquet")
    ((key, stored),) = table.schema.metadata.items()
    header = json.loads(stored)
    assert header["plan"].pop("jpeg") is None and header["plan"].pop("max_images") is None
    old = table.replace_schema_metadata({key: json.dumps(header)})
    write_parquet(old, tmp_path / "old.parquet")
    assert ec.read_testset(tmp_path / "old.parquet").plan == Plan(
        "vcr", 8, corruptions=("vcr/blur",)
    )


@pytest.mark.parametrize("quality", [0, 101, True, 85.5, "85"])
def test_a_quality_is_a_whole_number_from_1_to_100(quality):
    with pytest.raises(ec.UsageError, match="jpeg must be a quality from 1 to 100"):
        Plan(jpeg=quality).check()


def test_a_run_of_another_quality_is_rejected(run, folder, tmp_path):
    given = ("evaluate", MODEL, "--images", folder, "--out", tmp_path / "out", "--stimulus",
             "native", "--suite", "imagenet-c", "--corruption", "contrast")  # fmt: skip
    small = ("--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 5, "--humans", "none")
    assert run(*given, *small, "--jpeg", 85, "--check").status == 0
    assert_rejected(run(*given, *small), "holds another run", "jpeg: 85, now None")
    assert_rejected(run(*given, *small, "--jpeg", 75), "holds another run", "jpeg: 85, now 75")
    assert_rejected(run(*given, *small, "--jpeg", 101), "from 1 to 100", "101")


def test_a_test_set_of_another_quality_is_rejected(run, folder, tmp_path):
    made = tmp_path / "t.parquet"
    ec.sample_testset(
        folder, "imagenet-c", corruptions=["contrast"], stimulus="native", jpeg=85
    ).save(made)
    given = ("evaluate", MODEL, "--images", folder, "--out", tmp_path / "out", "--stimulus",
             "native", "--testset", made, "--bins", 9, "--min-per-bin", 3, "--n-bootstrap",
             5)  # fmt: skip
    assert_rejected(run(*given, "--jpeg", 90), "jpeg must match")
    assert run(*given).status == 0
    found = ec.read_testset(made)
    images = ec.load_images(folder, "native")
    assert found.samples(images)


def test_imagenet_cs_extras_can_be_named_with_the_fifteen():
    plan = Plan("imagenet-c", corruptions=("fog", "gaussian_blur"))
    assert [entry.name for entry in plan.entries()] == ["fog", "gaussian_blur"]
    assert len(Plan("imagenet-c").entries()) == 15
