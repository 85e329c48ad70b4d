"""The published training recipes of structure studies, and the protocols of hold-out studies.

This module imports nothing slow, because the command line is built from them.
"""

from dataclasses import replace

from eyechart.training.recipe import Recipe

# As in the authors' code: 50 epochs, batch 128, Nesterov momentum, cosine schedule, crop with 4 px
# padding.
HOLDOUT_RECIPE = Recipe(epochs=50, batch_size=128, nesterov=True, schedule="cosine", crop=4)
"""Training recipe published with ICONS-50."""

CIFAR100_RECIPE = replace(HOLDOUT_RECIPE, epochs=100, weight_decay=5e-4, mixup=1.0)
SUPERCLASS_RECIPE = Recipe(
    epochs=1, batch_size=128, lr=0.01, weight_decay=5e-4, schedule="cosine", tune="last"
)


FAMILIAR, PUBLISHED = "familiar", "published"
PROTOCOLS = (FAMILIAR, PUBLISHED)
"""Protocols of hold-out studies: which of the images that are not held out are trained on."""


def describe_protocol(protocol: str, has_familiar: bool) -> str:
    """Return what a protocol means.

    `has_familiar`: whether there is an accuracy on familiar images.
    """
    if protocol == FAMILIAR:
        return (
            "Protocol familiar (eyechart's own): familiar images are tested and not trained on, and"
            " near-duplicates of test images are left out of training."
        )
    tested = (
        "familiar images are from the dataset's test set"
        if has_familiar
        else "none of them are left for an accuracy on familiar images"
    )
    return (
        "Protocol published (as in the paper): networks are trained on all images that are not held"
        f" out, including near-duplicates of test images; {tested}."
    )
