"""Titles and short names of models, corruptions, suites, label spaces and human references."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath

from eyechart.core.errors import UsageError
from eyechart.core.phrases import listed
from eyechart.corruptions.suites.published import TITLES
from eyechart.corruptions.suites.suite import load_suite, split_variant
from eyechart.models.card import CARD_SUFFIXES
from eyechart.models.find import FILES
from eyechart.models.registries import split_name
from eyechart.reports.number_text import delta_v_text, interval_text
from eyechart.results.curve_results import HumanComparison
from eyechart.scores.registry import PROPERTIES

SUITES = {
    **TITLES,
    "imagenet-3dcc": "ImageNet-3DCC",
    "imagenet-c-bar": "ImageNet-C-bar",
    "files": "Corrupted images",
}
GROUPS = ("noise", "blur", "weather", "digital")
"""Groups of corruptions in the order in which papers print them."""

LEFT_OUT = ("transform", "compression")
"""Words that papers omit from corruption names printed below a group heading."""

PROPER = {"gaussian": "Gaussian", "jpeg": "JPEG", "hsv": "HSV", "poisson": "Poisson"}
SPACES = {"native": "the models’ native classes", "entry16": "the 16 human categories"}
NO_REFERENCE = "no human reference"


def short_names(models: Sequence[str]) -> list[str]:
    """Return names that fit into a table: without folder and file suffix if they remain unique.

    Example:
        >>> short_names(["models/resnet50.pt", "efficientnet_lite0"])
        ['resnet50', 'efficientnet_lite0']
        >>> short_names(["a/net.pt", "b/net.pt"])
        ['a/net.pt', 'b/net.pt']
    """
    short = [_short(name) for name in models]
    return short if len(set(short)) == len(short) else list(models)


def _short(name: str) -> str:
    defenses, bare = split_name(name)
    is_file = PurePath(bare).suffix.lower() in (*FILES, *CARD_SUFFIXES)
    return defenses + PurePath(bare).stem if is_file else name


def unique_names(
    names: Iterable[str], form: str = "{} ({})", fold: Callable[[str], str] = str
) -> list[str]:
    """Return names of which repeated ones are numbered; names are equal if they are when folded.

    Example:
        >>> unique_names(["net", "net", "other", "net"])
        ['net', 'net (2)', 'other', 'net (3)']
    """
    unique: dict[str, str] = {}
    for name in names:
        text, number = name, 1
        while fold(text) in unique:
            number += 1
            text = form.format(name, number)
        unique[fold(text)] = text
    return list(unique.values())


def plain_name(text: str) -> str:
    """Return a text as one word for names of files, tasks and metrics.

    Example:
        >>> plain_name("hf:microsoft/resnet-50")
        'hf_microsoft_resnet-50'
    """
    return re.sub(r"[^\w.-]+", "_", text).strip(".") or "_"


def corruption_title(name: str) -> str:
    """Return the title of a corruption.

    Example:
        >>> corruption_title("vcr/motion_blur")
        'Motion blur'
    """
    text = corruption_words(name)
    return text[:1].upper() + text[1:]


def corruption_words(name: str) -> str:
    """Return the name of a corruption in a sentence.

    Example:
        >>> corruption_words("vcr/motion_blur")
        'motion blur'
        >>> corruption_words("gaussian_noise")
        'Gaussian noise'
    """
    words = name.rsplit("/", 1)[-1].replace("-", "_").split("_")
    return " ".join(PROPER.get(word.lower(), word) for word in words if word) or name


def suite_title(name: str) -> str:
    """Return the title of a suite; a custom one is named after its file.

    Example:
        >>> suite_title("imagenet-c")
        'ImageNet-C'
        >>> suite_title("suites/mine.yaml")
        'mine.yaml'
    """
    plain, variant = split_variant(name)
    title = SUITES.get(plain, plain.replace("\\", "/").rsplit("/", 1)[-1])
    return title if variant is None else f"{title} ({variant} variant)"


def groups_of(suite: str, corruptions: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return corruptions by the suite's groups: noise, blur, weather, digital, then any others.

    Corruptions whose group is unknown are under "".
    """
    try:
        # The file of a custom suite may be gone; its corruptions are then shown without groups.
        known = {entry.name: entry.group for entry in load_suite(suite)}
    except UsageError:
        known = {}
    collected: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in corruptions:
        collected.setdefault(known.get(name, ""), []).append(name)
    return [(group, members) for group, members in collected.items() if members]


def title_below(group: str, corruption: str) -> str:
    """Return a title as shortened in papers under a group heading: "Defocus" for defocus blur."""
    words = corruption_title(corruption).split()
    has_more = len(words) > 1 and words[-1].lower() in (group.lower(), *LEFT_OUT)
    return " ".join(words[:-1] if has_more else words)


def space_title(name: str) -> str:
    """Return the classes of a label space in words."""
    return SPACES.get(name, name)


def short_space(name: str) -> str:
    """Return the classes of a label space in a few words."""
    return "16 categories" if name == "entry16" else "native classes"


def human_source(comparisons: Iterable[tuple[str, HumanComparison | None]]) -> str:
    """Return a description of the human references of one corruption, by property."""
    by_source: dict[str, list[str]] = {}
    for letter, comparison in comparisons:
        source = NO_REFERENCE if comparison is None else comparison.about
        by_source.setdefault(source, []).append(PROPERTIES[letter])
    if len(by_source) == 1:
        return next(iter(by_source))
    return "; ".join(f"{' and '.join(names)}: {source}" for source, names in by_source.items())


def ranges_in_words(ranges: Iterable[tuple[float, float]]) -> str:
    """Return ranges of visual change in words: "0–0.1 and 0.9–1"."""
    return listed([interval_text(ends, delta_v_text) for ends in ranges])
