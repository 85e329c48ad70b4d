"""Networks that can be trained from scratch, and defenses, by name; new ones are registered here.

The command line lists them, so nothing slow (such as torch) is imported here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from eyechart.core.registry import Registry, one_of

if TYPE_CHECKING:
    from torch import nn

    from eyechart.models.defenses import DefenseType

NETWORKS: "Registry[Callable[[int], nn.Module]]" = Registry("network")
"""Functions that take the number of classes and return a network with random weights."""

for _name, _builder in {
    "resnet9": "ResNet9",
    "resnet18": "ResNet18",
    "imagenet_resnet18": "imagenet_resnet18",
    "imagenet_resnet50": "imagenet_resnet50",
    "wrn_16_4": "wrn_16_4",
    "wrn_40_2": "wrn_40_2",
    "multigrid": "Multigrid",
}.items():
    NETWORKS.add_lazily(_name, f"eyechart.models.networks:{_builder}")

ZOOS = ("timm", "torchvision")
"""The model zoos whose architectures can be trained from scratch."""

ACCEPTED = (*NETWORKS, *(f"{zoo}:NAME" for zoo in ZOOS), "module:function")
"""All accepted forms of an architecture, as listed in help texts and errors."""

ARCH_HELP = f"{one_of(ACCEPTED)} (called with the number of classes)"
"""Help text of options that take an architecture."""

CLAHE, NON_LOCAL_MEANS, TEN_CROP, CENTER_CROP = "clahe", "nlm", "ten-crop", "center-crop"

DEFENSES: "Registry[DefenseType]" = Registry("defense")
for _name, _home in {
    CLAHE: "CLAHE_DEFENSE",
    NON_LOCAL_MEANS: "NON_LOCAL_MEANS_DEFENSE",
    TEN_CROP: "TEN_CROP_DEFENSE",
    CENTER_CROP: "CENTER_CROP_DEFENSE",
}.items():
    DEFENSES.add_lazily(_name, f"eyechart.models.defenses:{_home}")


def split_name(name: str) -> tuple[str, str]:
    """Split a defended model's name into the defenses, such as "clahe+", and the model's name.

    Example:
        >>> split_name("clahe:clip=3+timm:resnet50")
        ('clahe:clip=3+', 'timm:resnet50')
    """
    # A model's own name may contain "+": only known defenses are split off.
    front, rest = "", name
    while rest.partition("+")[1] and rest.partition("+")[0].partition(":")[0] in DEFENSES:
        defense, plus, rest = rest.partition("+")
        front += defense + plus
    return front, rest
