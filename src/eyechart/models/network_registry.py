"""The networks that can be trained from scratch; to add one, write its class and register it here.

The command line lists the networks, so nothing slow (such as torch) is imported here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from eyechart.core.registry import Registry, one_of

if TYPE_CHECKING:
    from torch import nn

NETWORKS: "Registry[Callable[[int], nn.Module]]" = Registry("network")
"""Functions that take the number of classes and return a network with random weights."""

NETWORKS.add_lazily("resnet9", "eyechart.models.networks:ResNet9")
NETWORKS.add_lazily("resnet18", "eyechart.models.networks:ResNet18")
NETWORKS.add_lazily("imagenet_resnet18", "eyechart.models.networks:imagenet_resnet18")
NETWORKS.add_lazily("imagenet_resnet50", "eyechart.models.networks:imagenet_resnet50")
NETWORKS.add_lazily("wrn_16_4", "eyechart.models.networks:wrn_16_4")
NETWORKS.add_lazily("wrn_40_2", "eyechart.models.networks:wrn_40_2")
NETWORKS.add_lazily("multigrid", "eyechart.models.networks:Multigrid")

ZOOS = ("timm", "torchvision")
"""The model zoos whose architectures can be trained from scratch."""

ACCEPTED = (*NETWORKS, *(f"{zoo}:NAME" for zoo in ZOOS), "module:function")
"""All accepted forms of an architecture, as listed in help texts and errors."""

ARCH_HELP = f"{one_of(ACCEPTED)} (called with the number of classes)"
"""Help text of options that take an architecture."""
