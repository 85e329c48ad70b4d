"""Models whose scores do not depend on the image alone, named as `doubtful_models:…`."""

import torch
from torch import nn

import small_models


class Normalized(nn.Module):
    """A network whose normalization takes the statistics of the batch, whatever is asked of it."""

    def __init__(self, classes=4):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.parts = nn.Sequential(
                *(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU()),
                *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes)),
            )

    def train(self, mode=True):
        return super().train(True)

    def forward(self, images):
        return self.parts(images)


class FullyNormalized(Normalized):
    """The same where a single image has no statistics at all."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(3), nn.Linear(3, 4)
        )


class Dropping(nn.Module):
    def forward(self, images):
        kept = nn.functional.dropout(images, 0.3, training=True)
        return small_models.thousand(kept)


class Flipping(nn.Module):
    """Turns the sign of its scores at every call."""

    def __init__(self):
        super().__init__()
        self.sign = 1

    def forward(self, images):
        self.sign = -self.sign
        return self.sign * small_models.colors(images)


def constant(images):
    return torch.tensor([[0.1, 2.0, 0.3, 0.0]]).expand(len(images), 4)


def nearly_constant(images):
    """Always the second class, by scores that do depend on the image."""
    return small_models.colors(images) + torch.tensor([0.0, 100.0, 0.0, 0.0])


def leaning(images):
    """The last image of a batch gets the scores of the others added to its own."""
    scores = small_models.colors(images)
    return torch.cat([scores[:-1], scores.sum(dim=0, keepdim=True)])


def sigmoids(images):
    return torch.sigmoid(small_models.colors(images))


def probabilities(images):
    return small_models.colors(images).softmax(dim=1)


def sometimes_normalized(images):
    """Probabilities of images that are more green or gray than blue or red, logits of others."""
    scores = small_models.colors(images)
    is_cold = (scores.argmax(dim=1) % 2 == 1)[:, None]
    return torch.where(is_cold, scores.softmax(dim=1), scores + 5)


def without_scale(images):
    return small_models.colors(images) / 1000


def one_hot(images):
    return nn.functional.one_hot(small_models.colors(images).argmax(dim=1), 4)


def saturated(images):
    return small_models.thousand(images) * 1e6


def certain_of_images(images):
    """Certain of every image, but not of uniform grays."""
    scores = small_models.colors(images) * 1e6
    return torch.where(images.std(dim=(1, 2, 3))[:, None] > 0.01, scores, scores * 0)


def chance(images):
    return torch.rand(len(images), 4)


normalized, fully_normalized = Normalized(), FullyNormalized()
dropping, flipping = Dropping(), Flipping()
