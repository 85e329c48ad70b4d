"""How charts call things: corruptions, suites, label spaces, ranges of visual change."""

from collections.abc import Iterable, Sequence

SUITES = {
    "vcr": "VCR-Bench",
    "imagenet-c": "ImageNet-C",
    "imagenet-c-extra": "ImageNet-C extra",
    "imagenet-noc": "ImageNet-NOC",
    "noc-candidates": "ImageNet-NOC candidates",
}
SPACES = {"native": "the models' own classes", "entry16": "people's 16 categories"}
PROPER = {"gaussian": "Gaussian", "jpeg": "JPEG"}


def corruption_title(name: str) -> str:
    """Return how a corruption is called: "Motion blur" for `vcr/motion_blur`."""
    text = corruption_words(name)
    return text[:1].upper() + text[1:]


def corruption_words(name: str) -> str:
    """Return how a corruption is called in a sentence: "motion blur", "Gaussian noise"."""
    words = name.rsplit("/", 1)[-1].replace("_", " ").replace("-", " ").split()
    return " ".join(PROPER.get(word.lower(), word) for word in words) or name


def suite_title(name: str) -> str:
    """Return how a suite is called; a user's own by its file's name."""
    return SUITES.get(name, name.replace("\\", "/").rsplit("/", 1)[-1])


def space_title(name: str) -> str:
    """Return which classes a label space has."""
    return SPACES.get(name, name)


def listed(words: Sequence[str]) -> str:
    """Return words as in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def places(ranges: Iterable[tuple[float, float]]) -> str:
    """Return ranges of visual change in words: "0–0.1 and 0.9–1"."""
    return listed([f"{start:.2f}–{end:.2f}" for start, end in ranges])
