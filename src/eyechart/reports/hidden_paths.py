"""Hide information in a report before it is shared: paths and file names of images.

The information is removed from the runs before anything is drawn or written, so that it cannot
appear in a page, a card or a figure. Slow imports are inside functions, because the command line
imports this module.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from pathlib import Path, PurePath
from types import NoneType
from typing import TYPE_CHECKING, Annotated, TypeVar

from eyechart.core.options import Option
from eyechart.core.registry import one_of, unknown_name

if TYPE_CHECKING:
    from eyechart.results.runs import Run

PATHS, NAMES = "paths", "names"

HIDEABLE: Mapping[str, str] = {
    PATHS: "folders of images, models and files, and the command",
    NAMES: "file names of images",
}
"""What can be hidden: the names that --hide accepts, with descriptions."""

Hide = Annotated[
    tuple[str, ...],
    Option(
        help=f"Hide what must not be shared: {one_of(HIDEABLE)}; repeatable, or a "
        "comma-separated list.",
        group="Output",
        metavar="KIND",
    ),
]

SOURCE = "a hidden source"
"""Text shown instead of the folder of images."""

NOT_FILES = ("corruptions", "means_over", "models", "fit")
"""Settings whose values are names that may contain slashes, such as vcr/gaussian_noise."""

LOCAL = re.compile(r"~?[/\\]|\.{1,2}[/\\]|[A-Za-z]:[/\\]")
"""The beginning of a path on this machine; hf:org/model does not match."""

# The lookbehind spares vcr/fog and 1/2 (a word before the slash), https:// (a colon or a slash) and
# closing tags ("<").
ABSOLUTE = re.compile(
    r"(?<![\w.:/\\<~])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[^\s'\"/\\,;:()<>]+[/\\])*"
    r"([^\s'\"/\\,;:()<>]+)"
)
"""A path inside a sentence; the group matches its last component."""

SEPARATOR = re.compile(r"[/\\]")

PLAIN = (float, int, NoneType)
"""Types of values that contain no text."""

Value = TypeVar("Value")
Rewrite = Callable[[str], str]


def hidden_kinds(hide: str | Sequence[str]) -> tuple[str, ...]:
    """Return what to hide, without duplicates; a string may be a comma-separated list of names.

    Raises:
        UsageError: If a name is unknown.

    Example:
        >>> hidden_kinds(["names,paths", "paths"])
        ('paths', 'names')
    """
    texts = [hide] if isinstance(hide, str) else hide
    kinds = [kind.strip() for text in texts for kind in text.split(",")]
    for kind in kinds:
        if kind not in HIDEABLE:
            raise unknown_name("value of --hide", kind, HIDEABLE)
    return tuple(kind for kind in HIDEABLE if kind in kinds)


def hide_in_runs(
    runs: Sequence["Run"], kinds: Sequence[str], categories: Mapping[str, str]
) -> tuple[dict[str, str], list["Run"]]:
    """Return the models' categories and the runs, both without the hidden information."""
    changed = list(runs)
    # Before paths: without their folders two images could have the same name, and so one number.
    if NAMES in kinds:
        names = dict.fromkeys(name for run in changed for name in _image_names(run))
        # The same in all runs, which may have the same images.
        numbered = {name: f"image {number}" for number, name in enumerate(names, 1)}
        changed = [_rewritten_run(run, _replacing(numbered)) for run in changed]
    if PATHS in kinds:
        models = names_without_folders(name for run in changed for name in run.models)
        categories = {models.get(name, name): kind for name, kind in categories.items()}
        changed = [_without_paths(run, models) for run in changed]
    return dict(categories), changed


def hide_paths(value: Value) -> Value:
    """Return a value with folders removed from all paths in its strings."""

    def rewrite(text: str) -> str:
        # Embedded images and chart templates are strings too.
        if text.startswith("data:") or "<" in text:
            return text
        return ABSOLUTE.sub(r"\1", text) if re.search(r"\s", text) else _without_folder(text)

    return _rewritten(value, rewrite)


# File names of images


def _image_names(run: "Run") -> Iterable[str]:
    images = run.results.images
    damaged = (image.name for image in images.damaged)
    return chain(images.digests, damaged, (example.image for example in run.results.examples))


def _replacing(names: Mapping[str, str]) -> Rewrite:
    """Return a function that replaces names in a text, with and without their folders."""
    endings = {PurePath(name).suffix for name in names}
    # Longer names first, because a name may be the suffix of another.
    last = {PurePath(name).name: text for name, text in names.items()}
    ordered = sorted({**last, **names}.items(), key=lambda pair: -len(pair[0]))

    def rewrite(text: str) -> str:
        if text in names:
            return names[text]
        # Searching for thousands of names is slow, and few strings end like any of them.
        if any(ending in text for ending in endings):
            for name, replacement in ordered:
                text = text.replace(name, replacement)
        return text

    return rewrite


# Paths


def names_without_folders(names: Iterable[str]) -> dict[str, str]:
    """Return unique names without folders for the models whose names contain folders."""
    unique = list(dict.fromkeys(names))
    shorter: dict[str, str] = {}
    for name in unique:
        bare = short = _without_folder(name)
        number = 1
        while short != name and (short in shorter.values() or short in unique):
            number += 1
            short = f"{bare} ({number})"
        if short != name:
            shorter[name] = short
    return shorter


def _without_folder(name: str) -> str:
    """Return the last component of a name that is a path; other names are unchanged."""
    from eyechart.models.card import CARD_SUFFIXES
    from eyechart.models.find import FILES
    from eyechart.models.registries import split_name

    defenses, bare = split_name(name)
    prefix, colon, rest = bare.partition(":")
    # A Windows drive is not a prefix.
    kind, path = (prefix + colon, rest) if colon and len(prefix) > 1 else ("", bare)
    is_file = PurePath(path).suffix.lower() in (*FILES, *CARD_SUFFIXES)
    # Names on hubs are org/model, with one slash. That is a path only if it exists here.
    is_local = LOCAL.match(path) or "\\" in path or path.count("/") > 1
    if not is_file and not is_local and not ("/" in path and Path(path).exists()):
        return name
    return defenses + kind + _last(path)


def _without_paths(run: "Run", models: Mapping[str, str]) -> "Run":
    info, secrets = run.results.run, dict(models)
    folders = (info.images, str(Path(info.images).absolute()), run.folder, run.folder.absolute())
    # Notes may contain a folder as it was given or in full.
    secrets |= {str(folder): "…" for folder in folders if SEPARATOR.search(str(folder))}
    for name, value in run.config.written().items():
        # Suites, human references and baselines may be files.
        if name not in NOT_FILES:
            texts = value if isinstance(value, list | tuple) else [value]
            secrets |= {
                text: _last(text)
                for text in texts
                if isinstance(text, str) and SEPARATOR.search(text)
            }
    known = sorted(secrets.items(), key=lambda pair: -len(pair[0]))
    without_folders = _replacing({name: _last(name) for name in _image_names(run)})

    def rewrite(text: str) -> str:
        if text in secrets:
            return secrets[text]
        # First known paths, which may contain spaces, then all others.
        for secret, replacement in known:
            text = text.replace(secret, replacement)
        return ABSOLUTE.sub(r"\1", without_folders(text))

    run = _rewritten_run(run, rewrite)
    hidden = {
        "images": run.results.images.model_copy(update={"source": SOURCE}),
        "run": info.model_copy(update={"command": "", "images": ""}),
    }
    return replace(run, results=run.results.model_copy(update=hidden))


def _last(text: str) -> str:
    return SEPARATOR.split(text.rstrip("/\\"))[-1]


# Rewriting


def _rewritten_run(run: "Run", rewrite: Rewrite) -> "Run":
    # Keys of scores begin with the model, whose name must stay the one in the results.
    scores = {(rewrite(key[0]), *key[1:]): number for key, number in run.scores.items()}
    return replace(run, results=_rewritten(run.results, rewrite), scores=scores)


def _rewritten(value: Value, rewrite: Rewrite) -> Value:
    """Return a value with every string in it rewritten; other values are unchanged."""
    from pydantic import BaseModel

    changed: object = value
    if isinstance(value, str):
        changed = rewrite(value)
    elif isinstance(value, BaseModel):
        rewritten = {name: _rewritten(item, rewrite) for name, item in vars(value).items()}
        changed = value.model_copy(update=rewritten)
    elif is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in fields(value) if field.init)
        rewritten = {name: _rewritten(getattr(value, name), rewrite) for name in names}
        changed = replace(value, **rewritten)
    elif isinstance(value, Mapping):
        changed = {
            _rewritten(key, rewrite): _rewritten(item, rewrite) for key, item in value.items()
        }
    # Curves are long lists of numbers, in part None, that contain no strings to search for.
    elif isinstance(value, tuple | list) and not all(isinstance(item, PLAIN) for item in value):
        changed = type(value)(_rewritten(item, rewrite) for item in value)
    return changed  # type: ignore[return-value]
