"""The models that published studies compared, as strings that `load_model` accepts.

Table 1 of the VCR study names 19 models. Its text counts 21 models: 11 supervised, 4 adversarial, 2
SWSL, 1 CLIP and 3 ViT. Only 9 models in the table are clearly supervised; if its two "supervised
ViT" models are counted both as supervised and as ViT, the numbers agree. The study names no other
models.
"""

import re
from dataclasses import dataclass

from eyechart.core.registry import Registry

CATEGORIES = ("supervised", "ViT", "adversarial", "SWSL", "CLIP")
"""The model categories in the study's figures; SWSL means semi-weakly supervised learning."""


@dataclass(frozen=True)
class StudyModel:
    """A row of the study's table.

    `spec` is the model's name in eyechart, and `note` says what is uncertain.
    """

    name: str
    spec: str
    category: str
    architecture: str
    note: str = ""


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


STUDIES: Registry[tuple[StudyModel, ...]] = Registry("study")

COUNTS = {
    "vcr": "The study's table names these 19 models; its text counts 21 models, perhaps because two"
    " ViT models are counted twice.",
    "imagenet-c": "The paper also has CondenseNet, MSDNet and Multigrid networks, whose weights"
    " are in no supported library.",
    "imagenet-noc": "The paper also has ANT 3x3, whose weights are in no supported library.",
}
"""Remarks on the number of models."""

STUDIES.add(
    "vcr",
    (
        StudyModel("NOISYMIX", "robustbench:Erichson2022NoisyMix", "supervised", "ResNet-50"),
        StudyModel(
            "NOISYMIX_NEW", "robustbench:Erichson2022NoisyMix_new", "supervised", "ResNet-50"
        ),
        StudyModel("SIN", "robustbench:Geirhos2018_SIN", "supervised", "ResNet-50"),
        StudyModel("SIN_IN", "robustbench:Geirhos2018_SIN_IN", "supervised", "ResNet-50"),
        StudyModel("SIN_IN_IN", "robustbench:Geirhos2018_SIN_IN_IN", "supervised", "ResNet-50"),
        StudyModel("HMANY", "robustbench:Hendrycks2020Many", "supervised", "ResNet-50"),
        StudyModel("HAUGMIX", "robustbench:Hendrycks2020AugMix", "supervised", "ResNet-50"),
        StudyModel(
            "STANDARD_R50",
            "robustbench:Standard_R50",
            "supervised",
            "ResNet-50",
            "the same weights are torchvision:resnet50/IMAGENET1K_V1",
        ),
        StudyModel(
            "ALEXNET",
            "robustbench:AlexNet",
            "supervised",
            "AlexNet",
            "the same weights are torchvision:alexnet",
        ),
        StudyModel("TIAN_DEIT-S", "robustbench:Tian2022Deeper_DeiT-S", "ViT", "DeiT Small"),
        StudyModel("TIAN_DEIT-B", "robustbench:Tian2022Deeper_DeiT-B", "ViT", "DeiT Base"),
        StudyModel(
            "DO_50_2_LINF", "robustbench:Salman2020Do_50_2_Linf", "adversarial", "WideResNet-50-2"
        ),
        StudyModel(
            "LIU_SWIN-L", "robustbench:Liu2023Comprehensive_Swin-L", "adversarial", "Swin-L"
        ),
        StudyModel(
            "LIU_CONVNEXT-L",
            "robustbench:Liu2023Comprehensive_ConvNeXt-L",
            "adversarial",
            "ConvNeXt-L",
            "the table cites Singh et al. for it; the name belongs to Liu et al.'s model",
        ),
        StudyModel(
            "SINGH_CONVNEXT-L-CONVSTEM",
            "robustbench:Singh2023Revisiting_ConvNeXt-L-ConvStem",
            "adversarial",
            "ConvNeXt-L + ConvStem",
        ),
        StudyModel(
            "SWSL_RESNET18",
            "timm:resnet18.fb_swsl_ig1b_ft_in1k",
            "SWSL",
            "ResNet-18",
            "timm's copy of the weights first published through torch hub",
        ),
        StudyModel(
            "SWSL_RESNEXT101_32X16D",
            "timm:resnext101_32x16d.fb_swsl_ig1b_ft_in1k",
            "SWSL",
            "ResNeXt-101",
            "timm's copy of the weights first published through torch hub",
        ),
        StudyModel(
            "CLIP",
            "clip:openai/clip-vit-base-patch32",
            "CLIP",
            "CLIP",
            "prompt as in the study, but how the study spelled the class names is not known",
        ),
        StudyModel(
            "DINOV2_GIANT",
            "dinov2:facebook/dinov2-giant-imagenet1k-1-layer",
            "ViT",
            "ViT",
            "the study does not state whether its head uses one layer or four; this one uses one",
        ),
    ),
)


def _torchvision(name: str, weights: str, note: str = "") -> StudyModel:
    # The first weights of each network: later ones were trained by other recipes.
    return StudyModel(name, f"torchvision:{weights}/IMAGENET1K_V1", "supervised", name, note)


SHARED = (
    _torchvision("AlexNet", "alexnet"),
    _torchvision(
        "SqueezeNet",
        "squeezenet1_1",
        "the papers do not state the version; 1.1 has the printed clean error",
    ),
    _torchvision("VGG-11", "vgg11"),
    _torchvision("VGG-19-BN", "vgg19_bn"),
    _torchvision("ResNet-18", "resnet18"),
    _torchvision("ResNet-50", "resnet50"),
    _torchvision("DenseNet-121", "densenet121"),
)
"""The networks that both papers on ImageNet-C and on ImageNet-NOC tested."""

STUDIES.add(
    "imagenet-c",
    (
        *SHARED,
        _torchvision("VGG-19", "vgg19"),
        _torchvision("DenseNet-161", "densenet161"),
        _torchvision(
            "ResNeXt-50",
            "resnext50_32x4d",
            "other weights than the paper's, which have a clean error of 22.9 %",
        ),
        _torchvision(
            "ResNeXt-101",
            "resnext101_32x8d",
            "other weights than the paper's, which have a clean error of 21.0 %",
        ),
    ),
)
STUDIES.add(
    "imagenet-noc",
    (
        *SHARED,
        _torchvision("DenseNet-201", "densenet201"),
        _torchvision("WideResNet-50-2", "wide_resnet50_2"),
        StudyModel("SIN+IN", "robustbench:Geirhos2018_SIN_IN", "supervised", "ResNet-50"),
        StudyModel("AugMix", "robustbench:Hendrycks2020AugMix", "supervised", "ResNet-50"),
        StudyModel(
            "DeepAugment",
            "robustbench:Hendrycks2020Many",
            "supervised",
            "ResNet-50",
            "RobustBench names it after the paper that introduced DeepAugment",
        ),
    ),
)


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
