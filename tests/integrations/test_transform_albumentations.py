"""`Corrupt` inside `albumentations.Compose`, where that package is installed."""

import pickle

import numpy as np
import pytest

import eyechart as ec

# version 2.0.8 looks for a newer version of itself when it is imported
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

BOX = [20.0, 14.0, 40.0, 30.0]


@pytest.fixture(scope="module")
def albumentations():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")
        return pytest.importorskip("albumentations")


def example():
    numbers = np.random.default_rng(0)
    return numbers.integers(0, 256, (48, 64, 3), dtype=np.uint8), np.eye(48, 64, dtype=np.uint8)


@pytest.mark.parametrize("name", ["noc/rotation", "noc/shear", "noc/translation", "fog"])
def test_compose_gives_what_the_transform_gives(albumentations, name):
    transform = ec.Corrupt(name, seed=2)
    compose = albumentations.Compose(
        [albumentations.HorizontalFlip(p=1), transform.as_albumentations()],
        bbox_params=albumentations.BboxParams(format="pascal_voc", label_fields=["labels"]),
    )
    image, mask = example()
    result = compose(image=image, mask=mask, bboxes=[BOX], labels=["cat"])
    flipped = [64 - BOX[2], BOX[1], 64 - BOX[0], BOX[3]]
    expected = transform(
        image=np.ascontiguousarray(image[:, ::-1]), mask=mask[:, ::-1], bboxes=[flipped]
    )
    assert np.array_equal(result["image"], expected["image"])
    assert np.array_equal(result["mask"], expected["mask"])
    assert np.allclose(result["bboxes"][0], expected["bboxes"][0], atol=1e-3)
    assert result["labels"] == ["cat"]


def test_epochs_are_shared_and_it_can_be_pickled(albumentations):
    transform = ec.Corrupt("gaussian_noise")
    compose = albumentations.Compose([transform.as_albumentations()])
    image, _ = example()
    first = compose(image=image)["image"]
    transform.set_epoch(1)
    second = compose(image=image)["image"]
    assert not np.array_equal(first, second) and np.array_equal(second, transform(image))
    same = pickle.loads(pickle.dumps(transform.as_albumentations()))
    assert np.array_equal(same(image=image)["image"], second)


def test_what_cannot_follow_is_rejected(albumentations):
    compose = albumentations.Compose([ec.Corrupt("elastic_transform").as_albumentations()])
    image, mask = example()
    with pytest.raises(ec.UsageError, match="cannot follow"):
        compose(image=image, mask=mask)
