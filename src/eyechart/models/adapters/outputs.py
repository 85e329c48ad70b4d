"""The outputs of a zoo's model: ImageNet's 1,000 classes, or other named classes."""

import difflib
import re
from collections.abc import Sequence

from torch import Tensor, nn

from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import CLASSES, class_names, wordnet_ids
from eyechart.models.label_map import BACKGROUND_FIRST, LabelMap, find_map, map_of

AGREEMENT = 0.5
"""Fraction of output names that must match ImageNet's class names in order. If the outputs had any
other order, hardly any would match.
"""

NEAR_ENOUGH = 40
"""Maximum number of known names to list in an error."""


class Scores(nn.Module):
    """Wraps a network that returns a record, and returns only its logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (B, K)."""
        logits: Tensor = self.network(images).logits
        return logits


def meaning_of(
    labels: Sequence[str], source: str
) -> tuple[LabelMap | None, tuple[str, ...] | None]:
    """Return which outputs to keep, and their names if they are not ImageNet's.

    1,000 outputs are ImageNet's if their labels are ImageNet's or generic (LABEL_0, …). If there is
    one extra output at the front, as in models from TensorFlow, it is dropped. If there are more
    outputs and their labels include all of ImageNet's WordNet ids, these are selected.
    """
    if len(labels) == CLASSES and (_say_nothing(labels) or _are_imagenet(labels)):
        return None, None
    if len(labels) == CLASSES + 1 and _are_imagenet(labels[1:]):
        return find_map(BACKGROUND_FIRST), None
    if set(wordnet_ids()) <= set(labels):
        return map_of(list(labels), source), None
    return None, tuple(labels)


def _say_nothing(labels: Sequence[str]) -> bool:
    # LABEL_0, LABEL_1, … is what transformers writes for classes without names.
    return all(re.fullmatch(r"(LABEL_)?\d*", label) for label in labels)


def _are_imagenet(labels: Sequence[str]) -> bool:
    """Return whether most labels contain the class's WordNet id or its name."""
    # Zoos spell names differently, so not every name has to match.
    same = sum(
        wnid in label or _plain(name) in map(_plain, label.split(","))
        for label, wnid, name in zip(labels, wordnet_ids(), class_names(), strict=True)
    )
    return same >= AGREEMENT * len(labels)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", " ", name).strip().lower()


def unknown_of_many(kind: str, name: str, known: Sequence[str], where: str) -> UsageError:
    """Return the error for an unknown name, which suggests similar names or says where to look.

    Case is ignored when names are compared, since zoos use capitals.
    """
    spelt = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), spelt, n=2)
    if not near and len(known) > NEAR_ENOUGH:
        return UsageError(f"Unknown {kind} '{name}': {where} lists the known names.")
    names = " or ".join(f"'{spelt[one]}'" for one in near)
    hint = f"Did you mean {names}?" if near else f"Known: {', '.join(sorted(known))}."
    return UsageError(f"Unknown {kind} '{name}'. {hint}")
