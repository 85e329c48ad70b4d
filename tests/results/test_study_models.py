import csv
from collections import Counter

import pytest

import published_scores as published
from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.models.adapter import ADAPTERS
from eyechart.results.study_models import CATEGORIES, STUDIES, category_of_model
from places import DATA, ROOT

PAPER = DATA / "vcr_models.csv"
"""The table of models of the VCR paper, as it is printed there."""


def test_the_study_names_nineteen_models_in_the_categories_of_its_table():
    counts = Counter(model.category for model in STUDIES["vcr"])
    assert counts == {"supervised": 9, "ViT": 3, "adversarial": 4, "SWSL": 2, "CLIP": 1}
    assert set(counts) == set(CATEGORIES)


def test_counting_both_supervised_vits_twice_gives_the_twenty_one_of_the_text():
    text = {"supervised": 11, "adversarial": 4, "SWSL": 2, "CLIP": 1, "ViT": 3}
    counts = Counter(model.category for model in STUDIES["vcr"])
    deits = sum(model.name.startswith("TIAN_DEIT") for model in STUDIES["vcr"])
    counts["supervised"] += deits
    assert counts == text and counts.total() == 21


def test_every_model_of_the_study_has_its_own_name_and_an_adapter():
    models = STUDIES["vcr"]
    assert len({model.name for model in models}) == len({model.spec for model in models}) == 19
    for model in models:
        prefix, _, name = model.spec.partition(":")
        assert prefix in ADAPTERS and name


def test_the_names_and_architectures_are_those_of_the_paper():
    with PAPER.open(encoding="utf-8", newline="") as file:
        printed = {
            row["name"].upper(): (row["architecture"], row["training"])
            for row in csv.DictReader(file)
        }
    ours = {model.name: model for model in STUDIES["vcr"]}
    assert set(printed) == set(ours)
    words = {"Adversarial": "adversarial", "Semi-weakly sup.": "SWSL", "Supervised": "supervised"}
    for name, (architecture, method) in printed.items():
        assert ours[name].architecture.lower() == architecture.lower()
        assert ours[name].category == words.get(method, method.split()[-1])


def test_the_networks_of_the_papers_on_corruption_errors_are_those_of_their_tables():
    text = {name for name in published.IN_TEXT if name.startswith(("DenseNet", "ResNeXt"))}
    tables = {
        "imagenet-c": {name.replace("+", "-") for name in published.CE} | text,
        "imagenet-noc": {*published.NOC_TABLE_5, "SIN+IN", "AugMix", "DeepAugment"},
    }
    for study, printed in tables.items():
        models = {model.name: model for model in STUDIES[study]}
        assert set(models) == printed
        assert len({model.spec for model in models.values()}) == len(models)
        for model in models.values():
            assert model.spec.partition(":")[0] in ADAPTERS
            assert category_of_model(model.spec) == "supervised"


@pytest.mark.parametrize("study", list(STUDIES))
def test_list_models_gives_the_models_of_a_study_one_per_line(run, study):
    told = run("list", "models", "--study", study)
    assert told.out.split() == [model.spec for model in STUDIES[study]]


def test_an_unknown_study_is_rejected_with_the_known_ones():
    with pytest.raises(UsageError, match=r"Unknown study 'vrc'.* 'vcr'"):
        STUDIES["vrc"]


def test_list_models_gives_names_and_prefixes_one_per_line(run):
    lines = run("list", "models").out.splitlines()
    assert lines[:3] == ["efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"]
    assert [line.partition(":")[0] for line in lines[3:]] == list(ADAPTERS)


def test_list_models_on_a_terminal_says_what_stands_behind_each_colon(run, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    table = run("list", "models").out
    for prefix in ADAPTERS:
        assert f"{prefix}:" in table and ADAPTERS[prefix].takes in table
    row = next(line for line in table.splitlines() if "python:" in line)
    assert "yes" in row


def test_list_models_of_the_study_gives_what_evaluate_takes(run):
    specs = [model.spec for model in STUDIES["vcr"]]
    assert run("list", "models", "--study", "vcr").out.splitlines() == specs


def test_list_models_of_an_unknown_study_is_rejected(run):
    assert_rejected(run("list", "models", "--study", "vrc"), "Did you mean 'vcr'?")


def test_the_documentation_has_every_row():
    page = (ROOT / "docs" / "how-to" / "adapters.md").read_text("utf-8")
    for model in STUDIES["vcr"]:
        row = f"| {model.name} | {model.category} | {model.architecture} | `{model.spec}` |"
        assert page.count(row) == 1


def test_models_of_the_study_are_of_its_categories():
    for model in STUDIES["vcr"]:
        assert category_of_model(model.spec) == category_of_model(model.name) == model.category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("timm:vit_base_patch16_224", "ViT"),
        ("clip:ViT-B-32/openai", "CLIP"),
        ("timm:resnext50_32x4d.fb_swsl_ig1b_ft_in1k", "SWSL"),
        ("timm:adv_inception_v3", "adversarial"),
        ("timm:resnext50_32x4d.fb_ssl_yfcc100m_ft_in1k", ""),
        ("timm:swin_base_patch4_window7_224", "ViT"),
        ("dinov2:facebook/dinov2-small-imagenet1k-1-layer", "ViT"),
        ("hf:google/vit-base-patch16-224", "ViT"),
        ("hf:somebody/network", ""),
        ("robustbench:Salman2020Do_50_2", ""),
        ("onnx:/data/eclipse/resnet.onnx", ""),
        ("private/invitation.pt", ""),
        ("torchvision:resnet50/IMAGENET1K_V2", "supervised"),
        ("efficientnet_lite0", "supervised"),
        ("mine:network", ""),
    ],
)
def test_names_of_other_models_suggest_a_category_or_none(name, category):
    assert category_of_model(name) == category
