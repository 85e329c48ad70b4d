"""Which pictures meet which corruption at which strength: the rows of a test set."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arguments import as_flag, as_list, as_number, as_path, as_text, brief
from eyechart.core.errors import UsageError
from eyechart.core.parts import file_name
from eyechart.core.randomness import ImageRandom, check_seed, hash64
from eyechart.core.registry import unknown_name
from eyechart.images.identity import named_keys
from eyechart.images.imageset import ImageSet
from eyechart.labels.categories import CATEGORIES, NONE
from eyechart.labels.spaces import SPACES, category_labels
from eyechart.suites.apply import draw_random
from eyechart.suites.assets import assets_mark, entry_mark, is_ready, left_out, ready_entries
from eyechart.suites.from_files import FILE_SUITES, entries_of, is_read
from eyechart.suites.strength import draw_from_domain, draw_severities, resolve
from eyechart.suites.suite import DRAWN, PUBLISHED, STRONGEST, Entry, load_suite
from eyechart.testsets.allocation import Counts, allocate
from eyechart.testsets.draws import CLEAN, Draws, Real, Whole, clean_draws, expand
from eyechart.testsets.making import Chunk, load_chunk, plan_chunks, read_chunk
from eyechart.visual_change.measure import find_definition

SAMPLINGS = ("paper", "uniform")
BENCHMARK, EXTRA = "imagenet-c", "imagenet-c-extra"
NAME = re.compile(r"[A-Za-z0-9_]+([-/][A-Za-z0-9_]+)*")
RESERVED = (CLEAN, "destroyed", "unreadable")
"""What rows are called that belong to no corruption."""

LEVELS = np.arange(1.0, 6.0)
FINGERPRINT = "strengths"
"""Under this name a plan's settings stand for all that its suite says of the corruptions."""

MOST = 10_000_000
"""Rows per corruption; beyond, a plan would not fit into memory."""

FEW_LEVELS = 12
"""Up to so many levels of strength are all looked at."""

BATCH = {"cpu": 32, "cuda": 256}


@dataclass(frozen=True)
class Plan:
    """All that decides a test set, besides the pictures.

    `n`: rows per corruption. `sampling`: parameters uniform over the published domain ("paper") or
    strengths that make Δv uniform. `labels`: whose classes are drawn equally often, unless not
    `balanced`; with "entry16" only pictures of the 16 categories are drawn. `delta_v`: over what
    range Δv is made uniform. `jpeg`: the quality at which every corrupted picture is stored and
    read back, as the published ones were at 85; None for not at all. `pictures`: of how many
    pictures the set was chosen, None for all.
    """

    suite: str = "vcr"
    n: int = 50_000
    seed: int = 0
    sampling: str = "paper"
    labels: str = "native"
    balanced: bool = True
    definition: str = "vcr"
    corruptions: tuple[str, ...] = ()
    delta_v: tuple[float, float] = (0.0, 1.0)
    jpeg: int | None = None
    pictures: int | None = None

    def check(self) -> None:
        """Raise a UsageError unless the plan can be carried out."""
        as_path(self.suite, "suite")
        if not isinstance(self.n, int) or isinstance(self.n, bool) or not 1 <= self.n <= MOST:
            raise UsageError(f"n must be a whole number from 1 to {MOST:,}, got {brief(self.n)}.")
        check_seed(self.seed)
        if self.jpeg is not None and not (_is_whole(self.jpeg) and 1 <= self.jpeg <= 100):
            raise UsageError(f"jpeg must be a quality from 1 to 100, got {brief(self.jpeg)}.")
        if self.pictures is not None and not (
            _is_whole(self.pictures) and 1 <= self.pictures <= MOST
        ):
            raise UsageError(
                f"pictures must be a whole number from 1 to {MOST:,}, got {brief(self.pictures)}."
            )
        if as_text(self.sampling, "sampling") not in SAMPLINGS:
            raise unknown_name("sampling", self.sampling, SAMPLINGS)
        if as_text(self.labels, "labels") not in SPACES:
            raise unknown_name("label space", self.labels, SPACES)
        as_flag(self.balanced, "balanced")
        ends = [as_number(end, "Each end of delta_v") for end in as_list(self.delta_v, "delta_v")]
        if len(ends) != 2:
            raise UsageError(f"delta_v must be a range, two numbers, got {len(ends)}.")
        low, high = ends
        if not 0 <= low < high <= 1:
            raise UsageError(f"delta_v must be a range within 0 and 1, got {low:g} to {high:g}.")
        if self.sampling != "uniform" and (low, high) != (0, 1):
            raise UsageError('A range of delta_v needs sampling "uniform".')
        if find_definition(self.definition).pixel:
            raise UsageError("A test set needs a definition with subbands: vcr or sheikh2006.")
        _check_names([entry.name for entry in self.entries()])

    def entries(self) -> list[Entry]:
        """Return the corruptions of the suite, or those chosen of it."""
        if is_read(self.suite):
            return entries_of(self.suite, self.corruptions)
        own = {entry.name: entry for entry in load_suite(self.suite)}
        known = {**own, **_more_of(self.suite)}
        if not all(isinstance(name, str) for name in self.corruptions):
            raise UsageError(f"corruptions must be a list of names, got {brief(self.corruptions)}.")
        if not self.corruptions:
            return ready_entries(load_suite(self.suite))
        chosen = []
        for name in self.corruptions:
            # the name alone will do where the suite's have a prefix
            full = next((each for each in known if name in (each, each.rpartition("/")[2])), None)
            if full is None:
                raise _not_there(name, self.suite, own)
            chosen.append(known[full])
        return chosen

    def all_names(self) -> list[str]:
        """Return the names of all corruptions of the suite, which means are over."""
        if is_read(self.suite):
            return list(FILE_SUITES.get(self.suite, self.corruptions))
        return [entry.name for entry in load_suite(self.suite)]

    def left_out(self) -> list[str]:
        """Return the corruptions of the suite that lack what they need and were not asked for."""
        if self.corruptions or is_read(self.suite):
            return []
        return left_out(load_suite(self.suite))

    def settings(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        entries = self.entries()
        return {
            **asdict(self),
            "corruptions": [entry.name for entry in entries],
            "delta_v": list(self.delta_v),
            FINGERPRINT: f"{hash64(*map(_mark, entries)):016x}",
        }


def _mark(entry: Entry) -> str:
    """Return what tells an entry from others; files of style transfer need no network."""
    return entry_mark(entry) if is_ready(entry) else entry.fingerprint


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _more_of(suite: str) -> dict[str, Entry]:
    """Return what can be named besides a suite's own: ImageNet-C's extras belong to it."""
    more = load_suite(EXTRA) if suite == BENCHMARK else ()
    return {entry.name: entry for entry in more}


def _check_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be those of files, or mean something else in a table."""
    files = [file_name(name) for name in names]
    for name, file in zip(names, files, strict=True):
        if not NAME.fullmatch(name) or name in RESERVED:
            raise UsageError(
                f"A test set cannot hold a corruption called {name!r}: letters, digits, _ and"
                " single - and / can be in its name."
            )
        if files.count(file) > 1:
            raise UsageError(f"{name} is there twice, or differs from another only by a slash.")


def names_of(corruptions: Sequence[str]) -> tuple[str, ...]:
    """Return names as a plan wants them; one name alone is taken for a mistake."""
    if isinstance(corruptions, str) or not isinstance(corruptions, Sequence):
        raise UsageError(f"corruptions must be a list of names, got {brief(corruptions)}.")
    return tuple(corruptions)


def _not_there(name: str, suite: str, own: Mapping[str, Entry]) -> UsageError:
    """Return the error for a corruption that a suite lacks, and who has it."""
    others = [each for each in PUBLISHED if name in {entry.name for entry in load_suite(each)}]
    if others:
        return UsageError(
            f"{suite} has no corruption '{name}', but {others[0]} has: use that suite."
        )
    return unknown_name("corruption", name, own)


def usable_pictures(images: ImageSet, plan: Plan) -> Whole:
    """Return the places of the pictures that can be drawn: with "entry16", those of the 16."""
    if plan.labels != "entry16":
        return np.arange(len(images))
    found = np.flatnonzero(category_labels(images.labels, images.categories) != NONE)
    if not len(found):
        raise UsageError(
            "No picture belongs to the 16 categories: give pictures labelled with ImageNet's"
            f" WordNet ids or with {CATEGORIES[0]}, {CATEGORIES[1]}, …, or use --labels native."
        )
    return found


def counts_of(images: ImageSet, plan: Plan) -> Counts:
    """Return how often each picture is drawn for a corruption without published levels."""
    classes: Sequence[str | None] = images.labels
    places = usable_pictures(images, plan)
    if plan.labels == "entry16":
        classes = [str(place) for place in category_labels(images.labels, images.categories)]
    if plan.labels == "none" or not plan.balanced:
        classes = [None] * len(images)
    counts = np.zeros(len(images), dtype=np.int64)
    counts[places] = allocate(
        [images.digests[place] for place in places],
        [classes[int(place)] for place in places],
        plan.n,
        plan.seed,
    )
    return counts


def plan_draws(images: ImageSet, plan: Plan) -> list[Draws]:
    """Return the rows of every corruption, and one for each clean picture that is used.

    With sampling "uniform", strengths are still to be found, severities are NaN, and there are more
    rows than will be used: a pool, so that some reach far.
    """
    plan.check()
    if images.files is None:
        for entry in plan.entries():
            # what is missing is said before the work
            assets_mark(entry)
    counts = counts_of(images, plan)
    groups: list[Draws] = []
    first = 0
    for entry in plan.entries():
        groups.append(_plan_entry(images, entry, counts, plan, first))
        first += len(groups[-1])
    if not images.has_clean:
        return groups
    used = np.unique(np.concatenate([draws.image for draws in groups]))
    return [clean_draws(used, first), *groups]


def _plan_entry(images: ImageSet, entry: Entry, counts: Counts, plan: Plan, first: int) -> Draws:
    if entry.at_levels and plan.sampling == "paper":
        # published levels: every picture at each of them, with the same random part
        places = usable_pictures(images, plan)
        image, severity = np.repeat(places, len(LEVELS)), np.tile(LEVELS, len(places))
        draw = np.zeros_like(image)
    else:
        image, draw = expand(counts * pool_factor(entry, plan))
        severity = np.full(len(image), np.nan)
    row = first + np.arange(len(image))
    draws = Draws(entry, row, image, draw, severity, {})
    if is_uniform(entry, plan) or images.files is not None:
        # files are as strong as they are: nobody says by which numbers
        return draws
    return with_values(images, draws, plan.seed)


def pool_factor(entry: Entry, plan: Plan) -> int:
    """Return how many rows are looked at for each that is used.

    Where strength leads to the picture's own draw, few draws lead far; where it has a few levels,
    all of them are looked at.
    """
    if not is_uniform(entry, plan):
        return 1
    if len(severities_of(entry)) > 2:
        return 2
    return 8 if DRAWN in entry.path.values() else 4


def is_uniform(entry: Entry | None, plan: Plan) -> bool:
    """Whether an entry's strengths are found from visual change, which moved pictures lack."""
    return entry is not None and plan.sampling == "uniform" and not entry.geometric


def with_values(images: ImageSet, draws: Draws, seed: int) -> Draws:
    """Return the draws with concrete parameters: from their severities, or the paper's domain.

    Severities that are not known are drawn where the entry has a range of them.
    """
    entry = draws.entry
    assert entry is not None
    random = draw_random(
        entry, keys_of(images, draws.image), seed, draws.draw.tolist(), torch.device("cpu")
    )
    if entry.severity is not None and np.isnan(draws.severity).all():
        draws = replace(draws, severity=draw_severities(random, *entry.severity))
    if np.isnan(draws.severity).all():
        values = draw_from_domain(entry, random)
    else:
        values = _from_severity(images, draws, entry, random)
    return replace(draws, values=values)


def _from_severity(
    images: ImageSet, draws: Draws, entry: Entry, random: ImageRandom
) -> dict[str, Real]:
    """Return parameters in the entry's own units; where it has none, in px of each picture."""
    if entry.reference_side is not None:
        return resolve(entry, draws.severity, {}, entry.reference_side, random)
    sides = np.array([min(images.sizes[place]) for place in draws.image])
    values: dict[str, Real] = {}
    for side in np.unique(sides):
        own = resolve(entry, draws.severity, {}, int(side), random)
        for name, value in own.items():
            values[name] = np.where(sides == side, value, values.get(name, value))
    return values


def keys_of(images: ImageSet, places: Whole) -> Tensor:
    """Return the 64-bit keys of the pictures at these places."""
    distinct, which = np.unique(places, return_inverse=True)
    keys = named_keys([images.digests[place] for place in distinct], len(distinct))
    return keys[torch.from_numpy(which)]


def mildest(entry: Entry) -> float:
    """Return the severity at which a strength path begins.

    Kernels of whole numbers have no strength between none and their mildest.
    """
    moved = [entry.corruption.parameter(name) for name in entry.path]
    return 1.0 if moved and all(parameter.integer for parameter in moved) else 0.0


def severities_of(entry: Entry) -> Real:
    """Return the severities to look at before targets are drawn.

    All of them where strength has a few levels only, otherwise both ends of its path.
    """
    if len(entry.path) == 1 and mildest(entry):
        ((name, ends),) = entry.path.items()
        step = 2 if entry.corruption.parameter(name).odd else 1
        levels = abs(int((float(ends[1]) - float(ends[0])) / step)) + 1
        if 1 < levels <= FEW_LEVELS:
            return np.linspace(1.0, STRONGEST, levels)
    return np.array([mildest(entry), STRONGEST])


def each_chunk(
    images: ImageSet, groups: Sequence[Draws], plan: Plan, device: torch.device
) -> Iterator[Chunk]:
    """Yield the pictures that the rows need, a chunk at a time, on the device."""
    used = np.unique(np.concatenate([draws.image for draws in groups]))
    definition = find_definition(plan.definition)
    chunks = plan_chunks(images, used, device)
    # the next pictures are read while the device works on these
    with ThreadPoolExecutor(1, "eyechart-read") as reader:
        coming = reader.submit(read_chunk, images, chunks[0], device)
        for place, places in enumerate(chunks):
            pictures = coming.result()
            if place + 1 < len(chunks):
                coming = reader.submit(read_chunk, images, chunks[place + 1], device)
            yield load_chunk(
                images, places, pictures, device,
                definition=definition, seed=plan.seed, jpeg=plan.jpeg,
            )  # fmt: skip
