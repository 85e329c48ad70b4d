"""From a model's scores to log-probabilities, whichever of the two kinds of scores it gives."""

import torch
from torch import Tensor

from eyechart.core.errors import UsageError

TOLERANCE = 5e-3
"""How far a row of probabilities may be from a sum of 1: bfloat16 keeps 0.998 to within 0.002."""


def log_probabilities(scores: Tensor) -> Tensor:
    """Return the natural logarithms of the class probabilities, float32 (B, K).

    Rows that are nowhere negative and sum to 1, all of them, are probabilities already; anything
    else is taken for logits. No probability is smaller than float32's tiniest, 1.2e-38.
    """
    scores = scores.float()
    are_probabilities = _are_probabilities(scores)
    logarithms = scores.clamp(min=torch.finfo(torch.float32).tiny).log()
    # Both are computed, so that a GPU need not wait for the answer to "which".
    return torch.where(are_probabilities, logarithms, scores.log_softmax(dim=1))


def refuse_probabilities(scores: Tensor, name: str = "The network") -> None:
    """Refuse what a softmax has made: its cross-entropy would be taken of the wrong."""
    if bool(_are_probabilities(scores.float())):
        raise UsageError(
            f"{name} answers with probabilities, and training needs the logits before them: give"
            " the network without its softmax."
        )


def _are_probabilities(scores: Tensor) -> Tensor:
    return (scores >= 0).all() & ((scores.sum(dim=1) - 1).abs() <= TOLERANCE).all()
