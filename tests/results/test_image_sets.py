"""Which images published results were measured on, and where the built-in baselines hold."""

import pytest

import eyechart as ec
import published_scores as published
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.results.image_sets import are_robustbench_images, invalid_reason, names_digest
from eyechart.scores.baseline_tables import find_baseline
from published_scores import robustbench_names


@pytest.fixture(scope="module")
def validation_set():
    return {
        "suite": "imagenet-c",
        "corruptions": published.CORRUPTIONS,
        "names": [f"val/n0/ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, 50_001)],
        "labels_per_class": dict.fromkeys(wordnet_ids(), 50),
        "side": 224,
        "published_files": True,
        "jpeg": None,
    }


def test_the_alexnet_table_holds_for_published_files_and_for_jpeg_85(validation_set):
    assert invalid_reason("alexnet", **validation_set) is None
    assert (
        invalid_reason("alexnet", **{**validation_set, "published_files": False, "jpeg": 85})
        is None
    )
    by_index = {**validation_set, "labels_per_class": dict.fromkeys(range(1000), 50)}
    assert invalid_reason(find_baseline("alexnet"), **by_index) is None
    extras = {"suite": "imagenet-c-extra", "corruptions": ["spatter"]}
    assert invalid_reason("alexnet", **{**validation_set, **extras}) is None


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("50,000 images .* 970 images were given", {"names": ["a.JPEG"] * 970}),
        ("these have other names", {"names": ["a.JPEG"] * 50_000}),
        (
            "these images have others",
            {"labels_per_class": dict.fromkeys(wordnet_ids()[:100], 500)},
        ),
        ("other labels", {"labels_per_class": dict.fromkeys(range(1000), 49)}),
        ("at 224 px, but these images have 299 px", {"side": 299}),
        ("these are corruptions of vcr", {"suite": "vcr"}),
        ("'my_fog' is not one", {"corruptions": ["my_fog"]}),
    ],
)
def test_elsewhere_the_table_does_not_hold_and_the_sentence_says_why(
    words, changes, validation_set
):
    sentence = invalid_reason("alexnet", **{**validation_set, **changes})
    assert sentence.startswith("The table 'alexnet' is valid ")
    assert sentence.endswith("for example --baseline torchvision:alexnet --download.")
    with pytest.raises(ValueError, match=words):
        raise ValueError(sentence)


@pytest.mark.parametrize("labels", [("cat", "dog"), ("0", "1"), (*wordnet_ids(), "n0")])
def test_a_baseline_for_other_classes_than_imagenets_is_not_alexnet(labels, validation_set):
    changes = {"names": ["a.png"] * 8, "labels_per_class": dict.fromkeys(labels, 4)}
    assert invalid_reason("alexnet", **{**validation_set, **changes}).endswith(
        "evaluate a baseline with the same classes on the same images: --baseline MODEL."
    )


@pytest.mark.parametrize(
    ("words", "remedy", "changes"),
    [
        ("at 224 px, but these images have 64 px", "give --stimulus 224", {"side": 64}),
        ("never saved as JPEG", "give --jpeg 85", {"jpeg": None}),
        ("have JPEG quality 75", "give --jpeg 85", {"jpeg": 75}),
    ],
)
def test_a_condition_that_an_option_meets_names_the_option(words, remedy, changes, validation_set):
    corrupted_here = {**validation_set, "published_files": False, "jpeg": 85, **changes}
    sentence = invalid_reason("alexnet", **corrupted_here)
    assert words in sentence and sentence.endswith(f": {remedy}.")


def test_the_noc_table_holds_for_images_that_were_never_saved(validation_set):
    noc = {**validation_set, "suite": "imagenet-noc", "corruptions": published.NOC}
    noc["published_files"] = False
    assert invalid_reason("noc-alexnet", **noc) is None
    assert "saved as JPEG" in invalid_reason("noc-alexnet", **{**noc, "jpeg": 85})
    assert "imagenet-noc" in invalid_reason("noc-alexnet", **validation_set)
    own = ec.measured_baseline("mine", {"fog": 0.5})
    assert invalid_reason(own, **{**validation_set, "names": ["a"]}) is None


def test_images_are_told_by_their_names_in_any_order_and_folder():
    digest = names_digest(["b/two.JPEG", "a/one.png"])
    assert digest == names_digest(["one.jpg", "two.jpg"])
    assert digest != names_digest(["one.jpg", "three.jpg"])
    assert not are_robustbench_images(["one.jpg"])


def test_robustbench_images_are_recognised():
    assert are_robustbench_images(robustbench_names())
    assert not are_robustbench_images(robustbench_names()[1:])


def test_the_table_of_robustbench_holds_for_its_5000_images_and_no_others(validation_set):
    own = {**validation_set, "names": robustbench_names()}
    # its images are not as many of each class, and three classes have none
    own["labels_per_class"] = {wnid: 5 for wnid in wordnet_ids()[:997]}
    assert invalid_reason("robustbench-alexnet", **own) is None
    assert "RobustBench's 5,000" in invalid_reason("alexnet", **own)
    assert "50,000 images with other names" in invalid_reason(
        "robustbench-alexnet", **validation_set
    )
    assert "but these images have others" in invalid_reason(
        "robustbench-alexnet", **{**own, "labels_per_class": {"cat": 5000}}
    )
    assert "never saved" in invalid_reason(
        "robustbench-alexnet", **{**own, "published_files": False}
    )
    solid = {"suite": "imagenet-3dcc", "corruptions": ["flash"]}
    assert invalid_reason("robustbench-alexnet-3dcc", **{**own, **solid}) is None
