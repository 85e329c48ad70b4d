"""The models that published studies compared, as strings that `load_model` accepts.

Table 1 of the VCR study names 19 models. Its text counts 21 models: 11 supervised, 4 adversarial, 2
SWSL, 1 CLIP and 3 ViT. Only 9 models in the table are clearly supervised; if its two "supervised
ViT" models are counted both as supervised and as ViT, the numbers agree. The study names no other
models.
"""

import re
from dataclasses import dataclass

from eyechart.core.csv_table import packaged_rows
from eyechart.core.registry import Registry

CATEGORIES = ("supervised", "ViT", "adversarial", "SWSL", "CLIP")
"""The model categories in the study's figures; SWSL means semi-weakly supervised learning."""

HINTS = {
    "CLIP": r"clip|openai|laion\w*",
    "SWSL": r"swsl",
    "adversarial": r"adv",
    "ViT": r"vit[bslhg]?|deit3?|beit|beitv2|swin|swinv2|dinov2",
    "": r"ssl|wsl|mae|fcmae|dino|simclr",
}
"""Patterns for words in model names that indicate a category; the first match counts. They are not
from the study. Models that match the last pattern were trained in ways that no category covers.
"""

ZOOS = ("timm", "torchvision", "hf", "clip", "dinov2")
"""The model zoos whose model names indicate how a model was trained."""

SUPERVISED = ("timm", "torchvision")
"""The model zoos whose models were trained on labeled images unless their name says otherwise."""

COUNTS = {
    "vcr": "The study's table names these 19 models; its text counts 21 models, perhaps because two"
    " ViT models are counted twice.",
    "imagenet-c": "The paper also has CondenseNet, MSDNet and Multigrid networks, whose weights"
    " are in no supported library.",
    "imagenet-noc": "The paper also has ANT 3x3, whose weights are in no supported library.",
}
"""Remarks on the number of models."""


@dataclass(frozen=True, kw_only=True)
class StudyModel:
    """A model in the tables of studies.

    `study`: the studies. `spec` is the model's name in eyechart, and `note` says what is uncertain.
    """

    study: str
    name: str
    spec: str
    category: str
    architecture: str
    note: str


STUDIES: Registry[tuple[StudyModel, ...]] = Registry("study")

_models = [
    StudyModel(**row) for row in packaged_rows("eyechart.results", "data", "study_models.csv")
]
for _study in COUNTS:
    STUDIES.add(_study, tuple(model for model in _models if _study in model.study.split()))


def category_of_model(spec: str) -> str:
    """Return the category of a model, taken from the study or inferred from its name.

    The result is "" if the name does not suggest any category.
    """
    for study in STUDIES:
        for model in STUDIES[study]:
            if spec in (model.spec, model.name):
                return model.category
    zoo, _, name = spec.lower().partition(":")
    if zoo in ZOOS:
        # Whole words only: "vit" must not match inside "levit".
        words = re.split(r"[^a-z0-9]+", name)
        for category, pattern in HINTS.items():
            if category == {"clip": "CLIP", "dinov2": "ViT"}.get(zoo):
                return category
            if any(re.fullmatch(pattern, word) for word in words):
                return category
    packaged = spec.startswith("efficientnet_lite") and spec.isidentifier()
    return "supervised" if zoo in SUPERVISED or packaged else ""
