"""Convert a model's scores, which are logits or probabilities, to log-probabilities."""

import torch
from torch import Tensor

from eyechart.core.errors import UsageError

TOLERANCE = 5e-3
"""Tolerance for the sum of probabilities: bfloat16 represents 0.998 with an error of up to 0.002.
"""


def log_probabilities(scores: Tensor) -> Tensor:
    """Return the natural logarithms of the class probabilities, float32 (B, K).

    If all rows are non-negative and sum to 1, the scores are taken as probabilities, otherwise as
    logits. Probabilities are clamped to at least float32's smallest normal number, 1.2e-38.

    Example:
        >>> log_probabilities(torch.tensor([[0.25, 0.75]])).exp()
        tensor([[0.2500, 0.7500]])
        >>> log_probabilities(torch.tensor([[0.0, 0.0]])).exp()
        tensor([[0.5000, 0.5000]])
    """
    scores = scores.float()
    is_normalized = are_probabilities(scores)
    # Without the floor, a probability of 0 would become −∞.
    logarithms = scores.clamp(min=torch.finfo(torch.float32).tiny).log()
    # Both are computed, so that choosing between them does not synchronize a GPU.
    return torch.where(is_normalized, logarithms, scores.log_softmax(dim=1))


def reject_probabilities(scores: Tensor, name: str = "The network") -> None:
    """Raise a UsageError if scores are probabilities: cross-entropy needs logits."""
    if bool(are_probabilities(scores.float())):
        raise UsageError(
            f"{name} returns probabilities, but training needs logits: give the network without"
            " its softmax."
        )


def are_probabilities(scores: Tensor) -> Tensor:
    """Return whether all rows (B, K) are non-negative and sum to 1, as a tensor with one value."""
    return (scores >= 0).all() & ((scores.sum(dim=1) - 1).abs() <= TOLERANCE).all()
