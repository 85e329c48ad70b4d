"""Classes one by one: shares, intervals and what is said instead, against plain counts."""

from collections import Counter

import numpy as np
import pytest

from eyechart.pipeline.scoring.breakdowns import count_by_image, results_by_class
from eyechart.predictions.reading import Predictions
from eyechart.stats.bootstrap import draw_weights

CLASSES, IMAGES = 3, 12
NAMES = ("cat", "dog", "owl")


def predictions(count, seed, unlabeled=()):
    """Random answers among three classes to pictures whose label is their number modulo three."""
    random = np.random.default_rng(seed)
    image = np.arange(count) % IMAGES
    label = image % CLASSES
    label[np.isin(image, unlabeled)] = -1
    prediction = random.integers(0, CLASSES, count)
    right = np.where(label == -1, np.nan, (prediction == label).astype(float))
    nothing = np.full(count, np.nan)
    return Predictions(
        random.uniform(size=count), nothing, image, label, right, *(nothing for _ in range(4)),
        row=np.arange(count), prediction=prediction,
    )  # fmt: skip


@pytest.fixture
def gathered():
    clean = predictions(IMAGES, 0, unlabeled=(5,))
    own = {"fog": predictions(60, 1, unlabeled=(5,)), "snow": predictions(36, 2, unlabeled=(5,))}
    totals = {name: count_by_image(outcomes) for name, outcomes in own.items()}
    return clean, own, results_by_class(clean, totals, NAMES, 50, 0)


def test_shares_are_those_of_a_plain_count(gathered):
    clean, own, scores = gathered
    assert [score.label for score in scores] == [0, 1, 2]
    for score in scores:
        right, total, worst = 0, 0, {}
        for name, outcomes in own.items():
            mine = [
                a
                for a, b in zip(outcomes.prediction, outcomes.label, strict=True)
                if b == score.label
            ]
            worst[name] = sum(a == score.label for a in mine) / len(mine)
            right, total = right + sum(a == score.label for a in mine), total + len(mine)
        assert score.corrupted.value == pytest.approx(right / total)
        assert score.n_samples == total
        assert score.n_images == (3 if score.label == 2 else 4)
        assert score.worst == min(worst, key=worst.get)
        assert score.worst_rate == pytest.approx(min(worst.values()))
        assert score.clean == pytest.approx(np.mean(clean.correct[clean.label == score.label]))


def test_what_is_said_instead_is_the_most_frequent_wrong_prediction(gathered):
    _, own, scores = gathered
    for score in scores:
        wrong = Counter(
            int(prediction)
            for outcomes in own.values()
            for prediction, label in zip(outcomes.prediction, outcomes.label, strict=True)
            if label == score.label != prediction
        )
        assert score.instead_share == pytest.approx(max(wrong.values()) / wrong.total())
        assert score.name == NAMES[score.label]
        assert wrong[NAMES.index(score.instead)] == max(wrong.values())


def test_replicates_are_means_over_the_drawn_images(gathered):
    _, own, scores = gathered
    for replicate, weights in zip(range(50), draw_weights(IMAGES, 0), strict=False):
        for score in scores:
            hits = total = 0.0
            for outcomes in own.values():
                mine = outcomes.label == score.label
                share = weights[outcomes.image[mine]]
                hits += (share * outcomes.correct[mine]).sum()
                total += share.sum()
            expected = hits / total if total else score.corrupted.value
            assert score.corrupted.replicates[replicate] == pytest.approx(expected)


def test_few_images_have_wide_intervals(gathered):
    _, _, scores = gathered
    for score in scores:
        low, high = score.corrupted.interval95
        assert high - low > 0.5


def test_a_class_that_is_always_right_has_nothing_instead():
    own = predictions(24, 3)
    own.prediction[:] = own.label
    own.correct[:] = 1
    clean, totals = predictions(IMAGES, 0), {"fog": count_by_image(own)}
    scores = results_by_class(clean, totals, NAMES, 10, 0)
    assert [(score.instead, score.instead_share) for score in scores] == [("", None)] * 3


def test_without_labels_there_are_no_classes():
    assert count_by_image(predictions(24, 1, unlabeled=range(IMAGES))) is None
    assert results_by_class(predictions(IMAGES, 0, unlabeled=range(IMAGES)), {}, NAMES, 10, 0) == []
