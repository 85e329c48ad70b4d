"""Photographs and test sets that studies are made of."""

import numpy as np

import eyechart as ec
from eyechart.images.labels.imagenet import CATEGORIES
from real_images import NAMES, whole_photo

SIDE = 32
SMALL = ("--trials", 20, "--practice", 4, "--qualification", 5, "--catch", 3)
TWO = ("gaussian_noise", "brightness")


def save_real_images(folder, each=4, labels=CATEGORIES, side=SIDE):
    """Write parts of photographs, so many for each label, and return the folder."""
    random = np.random.default_rng(7)
    for label in labels:
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            whole = whole_photo(NAMES[number % 4])
            left, top = (int(random.integers(0, room - 90)) for room in whole.size)
            part = whole.crop((left, top, left + 90, top + 90)).resize((side, side))
            part.save(folder / label / f"{number}.png")
    return folder


def draw_testset(folder, path, n=64, stimulus="native", corruptions=TWO, **more):
    ec.sample_testset(
        folder, n=n, corruptions=list(corruptions), stimulus=stimulus, seed=3, **more
    ).save(path)
    return path
