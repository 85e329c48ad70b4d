"""Evaluations that are kept: one run folder for each combination of model, data and settings.

An unchanged combination is read from its folder, without calling the model.
"""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from torch import nn

from eyechart.core.errors import UsageError
from eyechart.core.provenance import versions
from eyechart.core.storage.locks import try_lock
from eyechart.images.hf_images import HUB
from eyechart.images.identity import file_digest
from eyechart.images.image_list import MANIFESTS
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import ImageSet
from eyechart.images.published_source import LABELS
from eyechart.images.tar_shards import TAR, find_shards
from eyechart.models.model import Model
from eyechart.pipeline.evaluate import load_requested, run_evaluation
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.results.schema import Results
from eyechart.results.scores_file import load

NOT_TAKEN = ("out", "dry_run", "check", "fail_under")
"""Options of `evaluate` that do not change the predictions, and would not apply to a kept run."""

WAIT_S = 0.5
"""Seconds between attempts to lock a run folder to which another process is writing."""

# Bookkeeping of torch that every module has, such as hooks.
_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))


@dataclass(frozen=True)
class Description:
    """Everything that the predictions of a run depend on, as text.

    Attributes:
        text: The description.
        is_complete: Whether the text also identifies the run in other processes. It does not if the
            model is a function, because the function's code is unknown.
    """

    text: str
    is_complete: bool = True


@dataclass
class KeptRuns:
    """The folders in which runs are kept.

    Attributes:
        lasting: Folder of runs that are used again by other processes.
        passing: Folder of runs with an incomplete description, used only by this process.
    """

    lasting: Path
    passing: Path
    # Descriptions contain addresses, which must not be reused while this object exists.
    _held: list[object] = field(default_factory=list)

    def evaluate(self, settings: EvaluateSettings) -> tuple[Results, bool]:
        """Return the results with these settings, and whether they come from an earlier run.

        Raises:
            UsageError: If a setting is invalid.
        """
        _reject_options(settings)
        specs = settings.models
        models = [load_requested(model, settings) for model in specs]
        parts = [describe_model(model, spec) for model, spec in zip(models, specs, strict=True)]
        parts += [describe_settings(settings), Description(repr(versions()))]
        digest = hashlib.sha256("\n".join(part.text for part in parts).encode()).hexdigest()
        is_complete = all(part.is_complete for part in parts)
        if not is_complete:
            self._held.append(settings)
        # Only for the reader, and short, because file systems limit names; the digest decides.
        name = re.sub(r"[^\w.-]+", "-", "-".join(model.name for model in models))[:40]
        folder = (self.lasting if is_complete else self.passing) / f"{name}-{digest[:16]}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Locked before reading, so that of two processes one evaluates and the other reads.
        with _wait_for(folder):
            kept = _read(folder)
            if kept is not None:
                return kept, True
            # An interrupted run resumes in its folder.
            results = run_evaluation(replace(settings, model=models, out=folder)).results
            results.save(folder)
            return results, False


def _reject_options(settings: EvaluateSettings) -> None:
    declared = {option.name: option.default for option in fields(EvaluateSettings)}
    given = [name for name in NOT_TAKEN if getattr(settings, name) != declared[name]]
    if given:
        raise UsageError(
            f"{given[0]} must be omitted, because runs are kept by model and data: give"
            " requirements as rules of the gate."
        )


@contextmanager
def _wait_for(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder; wait while another process holds it."""
    while True:
        with try_lock(folder) as is_free:
            if is_free:
                yield
                return
        time.sleep(WAIT_S)


def _read(folder: Path) -> Results | None:
    """Return the results in a folder; None if there are none, or they cannot be read."""
    try:
        return load(folder)
    except UsageError:
        return None


def describe_model(model: Model, spec: object) -> Description:
    """Return what a model's predictions depend on: weights, plain attributes and source files.

    Args:
        model: The model.
        spec: The name or object that it was loaded from.

    Example:
        >>> from eyechart.models.find import load_model
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
        >>> describe_model(load_model(network), network).is_complete
        True
        >>> def brightness(images):
        ...     return images.mean(dim=(2, 3))
        >>> describe_model(load_model(brightness), brightness).is_complete
        False
    """
    parts = [model.name, model.identity]
    is_complete = bool(model.identity) and not model.is_code
    if model.module is not None:
        parts += _plain_attributes(model.module)
        files = [_source_file(kind) for kind in _classes(model.module)]
        is_complete = is_complete and None not in files
        # Sorted, because the order of a set differs between processes.
        parts += sorted({file_digest(file) for file in files if file is not None})
    if not is_complete:
        parts.append(spec if isinstance(spec, str) else f"object {id(spec)}")
    return Description("\n".join(parts), is_complete)


def _plain_attributes(module: nn.Module) -> Iterator[str]:
    """Yield attributes of a module and its submodules that are numbers or strings, not weights."""
    for name, part in module.named_modules():
        for key, value in sorted(vars(part).items()):
            if key not in _MODULE_ATTRIBUTES and _is_plain(value):
                yield f"{name}.{key}={value!r}"


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _classes(module: nn.Module) -> list[type]:
    """Return the classes of a module and its parts, except those of torch and Python."""
    kinds = {kind for part in module.modules() for kind in type(part).__mro__}
    return [kind for kind in kinds if kind.__module__.split(".")[0] not in ("torch", "builtins")]


def _source_file(kind: type) -> Path | None:
    """Return the file that defines a class; None if there is none, as in a notebook."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file) if file is not None and Path(file).is_file() else None


def describe_settings(settings: EvaluateSettings) -> Description:
    """Return a description of all settings except the models, including the contents of files."""
    names = [option.name for option in fields(settings) if option.name not in ("model", *NOT_TAKEN)]
    described = {name: _describe(getattr(settings, name)) for name in names}
    text = json.dumps({name: part.text for name, part in described.items()}, sort_keys=True)
    return Description(text, all(part.is_complete for part in described.values()))


def _describe(value: object) -> Description:
    """Return the value of a setting as text; files and folders are described by their contents."""
    if isinstance(value, ImageSet):
        return Description(f"{value.stimulus.name} {value.fingerprint}")
    if isinstance(value, str) and value.startswith(HUB):
        # What the hub has under this name may change.
        return Description(value, False)
    if isinstance(value, str | os.PathLike) and _is_path(Path(value)):
        return Description(f"{value} {_contents(Path(value))}")
    if isinstance(value, str | os.PathLike | bool | int | float | np.number | None):
        return Description(repr(value))
    if isinstance(value, Mapping):
        return _describe(list(value.items()))
    if isinstance(value, Sequence):
        parts = [_describe(item) for item in value]
        return Description(repr([part.text for part in parts]), all(p.is_complete for p in parts))
    return Description(f"object {id(value)}", False)


def _is_path(path: Path) -> bool:
    # A path with braces stands for several tar files.
    return os.path.exists(path) or (path.suffix.lower() == TAR and "{" in path.name)


def _contents(path: Path) -> str:
    """Return the digest of a file or folder; if a file lists images, they are included."""
    if path.is_dir():
        relative = sorted(file.relative_to(path) for file in path.rglob("*"))
        # Hidden folders are those of tools, such as the cache in which these runs are kept.
        seen = [file for file in relative if not any(part[0] == "." for part in file.parts)]
        named = [(file.as_posix(), path / file) for file in seen]
    else:
        listed = find_images(path) if path.suffix.lower() in MANIFESTS else []
        files = find_shards(path) if path.suffix.lower() == TAR else [path, path.parent / LABELS]
        named = [
            *((file.name, file) for file in files),
            *((image.name, image.path) for image in listed),
        ]
    digest = hashlib.sha256()
    for name, file in named:
        if file.is_file():
            content = file_digest(file)
            digest.update(f"{name}\n{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
