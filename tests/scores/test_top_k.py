"""Top-5 accuracy and ranks against torch.topk on raw scores."""

import numpy as np
import pytest
import torch

from eyechart.predictions.batches import rank_of, record_scores
from eyechart.predictions.reading import Predictions
from eyechart.scores.statistic import estimate_statistics, top5_accuracy


def predictions(rank, image=None):
    nothing = np.full(len(rank), np.nan)
    image = np.arange(len(rank)) if image is None else image
    label = np.zeros(len(rank), dtype=np.int64)
    return Predictions(
        nothing, nothing, image, label, *(nothing for _ in range(5)),
        rank=np.asarray(rank, dtype=np.float64),
    )  # fmt: skip


def test_it_is_how_often_topk_holds_the_label():
    numbers = torch.Generator().manual_seed(0)
    scores = torch.randn(400, 20, generator=numbers)
    labels = torch.randint(0, 20, (400,), generator=numbers)
    rank = record_scores(scores, labels).numbers[:, 3].numpy()
    best = scores.topk(5, dim=1).indices
    expected = (best == labels[:, None]).any(dim=1).double().mean().item()
    known = predictions(rank)
    (found,) = estimate_statistics([top5_accuracy(known)], known, 300, seed=0)
    assert found.value == pytest.approx(expected, abs=1e-12)
    # binomial, for every image has one sample
    spread = (expected * (1 - expected) / 400) ** 0.5
    assert found.replicates.std() == pytest.approx(spread, rel=0.15)


def test_ranks_equal_a_stable_sort_also_of_ties():
    scores = torch.randint(0, 4, (300, 9), generator=torch.Generator().manual_seed(1)).float()
    labels = torch.arange(300) % 9
    order = torch.argsort(scores, dim=1, descending=True, stable=True)
    expected = (order == labels[:, None]).int().argmax(dim=1) + 1
    assert torch.equal(rank_of(scores, labels), expected)


def test_rank_1_is_the_recorded_prediction_even_of_equal_scores():
    scores = torch.tensor([[0.0, 2.0, 2.0], [2.0, 2.0, 2.0], [0.0, 0.0, 1.0]])
    for label in range(3):
        numbers = record_scores(scores, torch.full((3,), label)).numbers
        assert ((numbers[:, 3] == 1) == (numbers[:, 0] == label)).all()


def test_without_a_label_there_is_no_rank_and_no_score():
    scores = torch.randn(3, 4)
    assert record_scores(scores).numbers[:, 3].tolist() == [0, 0, 0]
    assert rank_of(scores, torch.tensor([-1, -1, 0]))[:2].tolist() == [0, 0]
    assert top5_accuracy(predictions([1, np.nan])) is None


def test_images_not_samples_are_resampled():
    # ten samples of each of 40 images, all alike: as uncertain as 40 samples
    rank = np.repeat(np.where(np.arange(40) < 20, 1, 9), 10)
    known = predictions(rank, image=np.repeat(np.arange(40), 10))
    (found,) = estimate_statistics([top5_accuracy(known)], known, 2000, seed=0)
    assert found.value == 0.5
    assert found.replicates.std() == pytest.approx((0.25 / 40) ** 0.5, rel=0.1)
