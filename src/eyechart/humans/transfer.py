"""Which corruptions look alike to humans, so that responses to one may stand for another.

Classes are data with their provenance: the published ones come with the package, others are found
by studies and kept in files of the same form. Nothing else is ever transferred.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.yaml_text import parse_yaml
from eyechart.suites.suite import all_entries, find_entry

PUBLISHED, NONE = "published", "none"
"""Names of classes that need no file: those of the VCR paper, and none at all."""

STUDY = "study"
KIND, VERSION = "similar-classes", 1

EXPERIMENTS = {"noise": "uniform_noise", "lowpass": "gaussian_blur"}
"""The corruption whose class a published experiment belongs to."""

SAME = {"lowpass": "gaussian_blur", "contrast": "contrast"}
"""Which corruption a published experiment is, but for colour.

The experiment `noise` is none: contrast was cut to 30 % before the noise was added.
"""


@dataclass(frozen=True)
class CorruptionClass:
    """Corruptions that look alike, and how that is known.

    `provenance`: "published", or "study" if a study's data were tested; `test`: how; `p`: the
    smallest p-value of its pairs, corrected for their number, and `n`: the fewest responses (or
    judgements) behind a pair, both None where they are not known. `source`: whose data.
    """

    name: str
    members: tuple[str, ...]
    provenance: str
    test: str
    p: float | None = None
    n: int | None = None
    source: str = ""

    @property
    def evidence(self) -> str:
        """How it is known, in a few words."""
        if self.provenance == PUBLISHED:
            return PUBLISHED
        numbers = [] if self.p is None else [f"p ≥ {self.p:.2g}"]
        numbers += [] if self.n is None else [f"n ≥ {self.n:,}"]
        return "; ".join([f"{STUDY} {self.source}".strip(), self.test, *numbers])


@dataclass(frozen=True)
class ComparedPair:
    """Two corruptions and what a test of humans' data says of them.

    `of`: accuracy or consistency (curves), or judgements (same/different). `published_rule`:
    "overlap" or "apart" by the 83 % intervals of curves, "" for judgements. `p` and `p_holm`:
    of the simultaneous test of the largest difference along the curves, or of the accuracy of
    judgements; before and after correction for all pairs. `largest`: that difference, or the
    accuracy; `at_most`: its upper 95 % limit. `n`: responses to the one that has fewer, or
    judgements. `verdict`: "similar", "different" or "undecided".
    """

    a: str
    b: str
    of: str
    published_rule: str
    p: float
    p_holm: float
    largest: float
    at_most: float
    n: int
    verdict: str


@dataclass(frozen=True)
class SimilarClasses:
    """Classes of corruptions that look alike, and which corruptions were tested at all."""

    source: str
    classes: tuple[CorruptionClass, ...] = ()
    tested: tuple[str, ...] = ()
    pairs: tuple[ComparedPair, ...] = ()

    def find(self, name: str) -> CorruptionClass | None:
        """Return the class of a corruption or a published experiment; None where it has none."""
        return next(
            (
                corruption_class
                for corruption_class in self.classes
                if _has(corruption_class.members, name)
            ),
            None,
        )

    def name_of(self, name: str) -> str | None:
        """Return the name of the class of a corruption or an experiment; None where it has none."""
        corruption_class = self.find(name)
        return None if corruption_class is None else corruption_class.name

    def is_tested(self, name: str) -> bool:
        """Whether it was tested if a corruption looks like others; if not, nothing is known."""
        return _has(self.tested, name)

    def members_of(self, experiment: str) -> tuple[str, ...]:
        """Return the names of the corruptions that an experiment stands for, itself first."""
        same, corruption_class = SAME.get(experiment), self.find(experiment)
        first = (same,) if same else () if experiment in EXPERIMENTS else (experiment,)
        return tuple(
            dict.fromkeys((*first, *(corruption_class.members if corruption_class else ())))
        )


def published_classes() -> SimilarClasses:
    """Return the classes of the VCR paper."""
    return _published()


@cache
def _published() -> SimilarClasses:
    file = files("eyechart.humans").joinpath("data", "similar_classes.yaml")
    return _classes(yaml.safe_load(file.read_text("utf-8")))


def find_classes(names: str | Sequence[str]) -> SimilarClasses:
    """Return the classes of "published", "none", or files that `humans similar --out` wrote.

    Where several are given, a corruption has the class of the first that has one for it.
    """
    chosen = [names] if isinstance(names, str) else list(names)
    if NONE in chosen and len(chosen) > 1:
        raise UsageError("--similar none stands alone: leave out none, or the others.")
    parts = [_find(name) for name in chosen]
    classes, tested = _put_together(parts)
    return SimilarClasses(
        "; ".join(part.source for part in parts),
        tuple(classes),
        tuple(tested),
        tuple(pair for part in parts for pair in part.pairs),
    )


def write_classes(path: Path, similar: SimilarClasses) -> None:
    """Write classes as a YAML file that `find_classes` reads, whole or not at all."""
    check_replaceable(path)
    content = {
        "kind": KIND,
        "version": VERSION,
        "source": similar.source,
        "tested": list(similar.tested),
        "classes": [
            {**asdict(corruption_class), "members": list(corruption_class.members)}
            for corruption_class in similar.classes
        ],
        "pairs": [_rounded(asdict(pair)) for pair in similar.pairs],
    }
    with atomic_file(path) as temporary:
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
        temporary.write_text(text, encoding="utf-8")


def check_replaceable(path: Path) -> None:
    """Reject a path where something else is: only a file of classes is ever replaced."""
    if not path.exists():
        return
    try:
        read_classes(path)
    except UsageError:
        raise UsageError(
            f"{path} already exists and holds no similar classes: choose another file."
        ) from None


def read_classes(path: Path) -> SimilarClasses:
    """Return the classes in a file; a UsageError says what is wrong with it."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except ValueError as error:
        raise UsageError(
            f"{path} must be a YAML file of similar classes; it is no YAML of use: {error}."
        ) from None
    try:
        return _classes(content)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} must be a file of similar classes, as eyechart humans similar --out writes:"
            f" {reason}."
        ) from None


def is_direct(experiment: str, corruption: str) -> bool:
    """Whether humans were shown this corruption itself.

    A bare name is any suite's corruption that it resolves to: frost is ImageNet-C's and VCR's, and
    uniform_noise, which only VCR has, is vcr/uniform_noise. A name with a suite is that one alone.
    """
    if experiment == corruption or SAME.get(experiment) == bare_name(corruption):
        return True
    if "/" in experiment or experiment in EXPERIMENTS:
        return False
    return experiment == bare_name(corruption) or _resolved(experiment) == corruption


def direct_names(experiment: str) -> list[str]:
    """Return the corruptions of published suites that humans were shown in an experiment."""
    return [name for name in all_entries() if is_direct(experiment, name)]


def bare_name(corruption: str) -> str:
    """Return the name without VCR's prefix; names of other suites stay what they are."""
    return corruption.removeprefix("vcr/")


def class_of(name: str) -> str | None:
    """Return the published class of a corruption or an experiment; None where it has none."""
    return published_classes().name_of(name)


def grouped(names: Sequence[str], alike: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the groups of two and more names in which every two are alike, the largest first.

    Likeness need not carry over from pair to pair, so that a name joins a group only if it is like
    each of its members; a name that fits several is in the largest, then in the first.
    """
    pairs = {frozenset(pair) for pair in alike}
    groups: list[tuple[str, ...]] = []
    left = list(names)
    while left:
        largest = max((_grown(first, left, pairs) for first in left), key=len)
        if len(largest) < 2:
            break
        groups.append(largest)
        left = [name for name in left if name not in largest]
    return groups


def _grown(first: str, names: Sequence[str], pairs: set[frozenset[str]]) -> tuple[str, ...]:
    group = [first]
    for name in names:
        if name not in group and all(frozenset((name, member)) in pairs for member in group):
            group.append(name)
    return tuple(name for name in names if name in group)


def _has(members: Iterable[str], name: str) -> bool:
    """Whether a corruption or experiment is among the members, whichever has the bare name."""
    names = {name, EXPERIMENTS.get(name, name)}
    return any(
        is_direct(m, candidate) or is_direct(candidate, m) for m in members for candidate in names
    )


@cache
def _resolved(name: str) -> str | None:
    try:
        return find_entry(name).name
    except UsageError:
        return None


def _find(name: str) -> SimilarClasses:
    if name == PUBLISHED:
        return published_classes()
    if name == NONE:
        return SimilarClasses("")
    return read_classes(Path(name))


def _put_together(parts: Sequence[SimilarClasses]) -> tuple[list[CorruptionClass], list[str]]:
    """Return classes under names of their own, less what earlier ones hold, and what was tested.

    Of a class of which one corruption is left, it is no longer known what that one looks like.
    """
    classes: list[CorruptionClass] = []
    tested: dict[str, None] = {}
    for part in parts:
        earlier = [member for earlier_class in classes for member in earlier_class.members]
        alone: set[str] = set()
        for corruption_class in part.classes:
            members = tuple(name for name in corruption_class.members if not _has(earlier, name))
            if len(members) < 2:
                alone |= set(members)
                continue
            is_known = any(corruption_class.name == other.name for other in classes)
            name = (
                f"{corruption_class.name} ({corruption_class.source})"
                if is_known
                else corruption_class.name
            )
            classes.append(replace(corruption_class, name=name, members=members))
        tested |= dict.fromkeys(name for name in part.tested if name not in alone)
    return classes, list(tested)


def _classes(content: object) -> SimilarClasses:
    if not isinstance(content, Mapping) or content.get("kind") != KIND:
        raise ValueError(f"kind must be {KIND}")
    if content.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION}, got {content.get('version')}")
    source = str(content["source"])
    classes = tuple(_class(record, source) for record in content["classes"])
    members = [name for corruption_class in classes for name in corruption_class.members]
    for name in members:
        if members.count(name) > 1:
            raise ValueError(f"{name} must be in one class, got {members.count(name)}")
    pairs = tuple(ComparedPair(**pair) for pair in content.get("pairs") or ())
    tested = dict.fromkeys((*map(str, content.get("tested") or ()), *members))
    return SimilarClasses(source, classes, tuple(tested), pairs)


def _rounded(values: Mapping[str, object]) -> dict[str, object]:
    return {
        k: round(value, 6) if isinstance(value, float) else value for k, value in values.items()
    }


def _class(content: Mapping[str, Any], source: str) -> CorruptionClass:
    known = {attribute.name for attribute in fields(CorruptionClass)}
    strange = set(content) - known
    if strange:
        raise ValueError(f"unknown field {sorted(strange)[0]}")
    if content["provenance"] not in (PUBLISHED, STUDY):
        raise ValueError(f"provenance must be {PUBLISHED} or {STUDY}, got {content['provenance']}")
    members = content["members"]
    if not isinstance(members, list) or len(members) < 2:
        raise ValueError(f"members of {content['name']} must be a list of at least two")
    p, n = content.get("p"), content.get("n")
    if p is not None and not (type(p) in (int, float) and 0 <= p <= 1):
        raise ValueError(f"p of {content['name']} must be a number from 0 to 1, got {p!r}")
    if n is not None and not (type(n) is int and n >= 0):
        raise ValueError(f"n of {content['name']} must be a whole number of at least 0, got {n!r}")
    return CorruptionClass(**{"source": source, **content, "members": tuple(map(str, members))})
