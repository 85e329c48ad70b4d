"""Batches: of nearly equal size, smaller where memory runs out, and classes without records."""

import pytest
import torch

import eyechart as ec
from eyechart.models.model import Model
from eyechart.predictions.batches import (
    BatchSize,
    StimulusSource,
    predict_batches,
    predict_classes,
)

IMAGES = torch.arange(10, dtype=torch.uint8).reshape(10, 1, 1, 1).expand(10, 3, 2, 4)


def source(n_images=10):
    return StimulusSource(n_images, (2, 4), lambda start, stop: (IMAGES[start:stop], start))


def by_level(images):
    """Class 1 for levels above 4, class 0 for others."""
    levels = images[:, 0, 0, 0] * 255
    return torch.stack([4.5 - levels, levels - 4.5], dim=1)


def n_kept(model, scores, known):
    """What is kept of a batch: how many images it had."""
    return len(scores)


class Narrow:
    """A model with room for so many images."""

    def __init__(self, most):
        self.most, self.sizes = most, []

    def __call__(self, images):
        self.sizes.append(len(images))
        if len(images) > self.most:
            raise torch.OutOfMemoryError("out of memory, as far as a test is concerned")
        return by_level(images)


def test_batches_are_of_nearly_equal_size_and_in_order():
    batches = predict_batches(source(), [Model("level", by_level)], n_kept, BatchSize(4))
    found = [(batch.start, batch.stop, batch.known, batch.records) for batch in batches]
    assert found == [(0, 4, 0, (4,)), (4, 7, 4, (3,)), (7, 10, 7, (3,))]


def test_out_of_memory_halves_batches_for_good_and_says_so():
    narrow, size, messages = Narrow(3), BatchSize(10), []
    (classes,) = predict_classes(
        source(), [Model("narrow", narrow)], size, lambda n, message: messages.append((n, message))
    )
    assert classes.tolist() == [0] * 5 + [1] * 5
    assert size.n_images == 2 and narrow.sizes == [10, 5, 2, 2, 2, 2, 2]
    assert [message for _, message in messages if message] == [
        "Out of memory: continuing with batches of 5.",
        "Out of memory: continuing with batches of 2.",
    ]
    assert sum(n for n, _ in messages) == 10


def test_an_image_that_does_not_fit_alone_is_one_sentence_with_its_size():
    with pytest.raises(ec.UsageError, match="single image of 4 × 2 px"):
        predict_classes(source(1), [Model("narrow", Narrow(0))], BatchSize(1))


def test_what_goes_wrong_otherwise_is_raised_as_it_is():
    def broken(start, stop):
        raise RuntimeError("the disk is on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        predict_classes(StimulusSource(2, (2, 4), broken), [Model("a", by_level)], BatchSize(2))


def test_every_model_predicts_the_same_images_in_one_pass():
    made = []

    def make(start, stop):
        made.append((start, stop))
        return IMAGES[start:stop], None

    models = [Model("one", by_level), Model("two", lambda images: -by_level(images))]
    one, two = predict_classes(StimulusSource(10, (2, 4), make), models, BatchSize(5))
    assert torch.equal(one, 1 - two) and made == [(0, 5), (5, 10)]


def test_scores_that_are_no_numbers_are_rejected_whichever_batch_they_are_in():
    def late(images):
        scores = by_level(images)
        return scores / (images[:, :1, 0, 0] * 255 < 9)

    with pytest.raises(ec.UsageError, match="'late' must return finite"):
        predict_classes(source(), [Model("early", by_level), Model("late", late)], BatchSize(3))
