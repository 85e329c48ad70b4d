"""Classes of corruptions that look similar to humans; responses are transferred within a class.

Every class has a provenance: published classes are included in the package; others result from
studies and are stored in files of the same format. Responses are never transferred from one class
to another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file
from eyechart.core.yaml_text import parse_yaml
from eyechart.corruptions.suites.suite import all_entries, find_entry

PUBLISHED, NONE = "published", "none"
"""Values of --similar that are not files: "published" (the VCR paper's classes) and "none"."""

STUDY = "study"
KIND, VERSION = "similar-classes", 1

EXPERIMENTS = {"noise": "uniform_noise", "lowpass": "gaussian_blur"}
"""Maps a published experiment to a corruption in the same class."""

SAME = {"lowpass": "gaussian_blur", "contrast": "contrast"}
"""Maps a published experiment to the corruption that it applied to grayscale images.

`noise` has no entry, because contrast was reduced to 30 % before the noise was added.
"""


@dataclass(frozen=True)
class CorruptionClass:
    """A class of similar corruptions, with the evidence for it.

    Attributes:
        name: Name of the class.
        members: Corruptions in the class.
        provenance: "published", or "study" if it results from testing a study's data.
        test: Test that was used.
        p: Smallest corrected p-value among the pairs in the class; None if unknown.
        n: Smallest number of responses or judgements for any of these pairs; None if unknown.
        source: Name of the data.
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
        """Short description of the evidence for this class."""
        if self.provenance == PUBLISHED:
            return PUBLISHED
        numbers = [] if self.p is None else [f"p ≥ {self.p:.2g}"]
        numbers += [] if self.n is None else [f"n ≥ {self.n:,}"]
        return "; ".join([f"{STUDY} {self.source}".strip(), self.test, *numbers])


@dataclass(frozen=True)
class ComparedPair:
    """Two corruptions and the result of a test on human data.

    Attributes:
        a: First corruption.
        b: Second corruption.
        of: "accuracy" or "consistency" (curves), or "judgements" (same/different).
        published_rule: Verdict by the VCR paper's rule: "overlap" or "apart" by the 83 % intervals
            of curves, "not told apart" or "told apart" by the binomial test of judgements.
        p: P-value of the largest difference between the curves (simultaneous test), or of the
            accuracy of judgements.
        p_holm: `p`, corrected over all pairs.
        largest: Largest difference, or accuracy of judgements.
        at_most: Upper 95 % limit of `largest`.
        n: Number of responses to the corruption with fewer responses, or number of judgements.
        verdict: "similar", "different" or "undecided".
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
    """Classes of similar corruptions, and all corruptions that were tested."""

    source: str
    classes: tuple[CorruptionClass, ...] = ()
    tested: tuple[str, ...] = ()
    pairs: tuple[ComparedPair, ...] = ()

    def find(self, name: str) -> CorruptionClass | None:
        """Return the class of a corruption or published experiment, or None if it has none."""
        return next(
            (
                corruption_class
                for corruption_class in self.classes
                if _has(corruption_class.members, name)
            ),
            None,
        )

    def name_of(self, name: str) -> str | None:
        """Return the name of a corruption's or experiment's class, or None if it has none."""
        corruption_class = self.find(name)
        return None if corruption_class is None else corruption_class.name

    def is_tested(self, name: str) -> bool:
        """Return whether the similarity of this corruption to others was tested."""
        return _has(self.tested, name)

    def members_of(self, experiment: str) -> tuple[str, ...]:
        """Return the corruptions for which an experiment can be used, its own corruption first."""
        same, corruption_class = SAME.get(experiment), self.find(experiment)
        first = (same,) if same else () if experiment in EXPERIMENTS else (experiment,)
        return tuple(
            dict.fromkeys((*first, *(corruption_class.members if corruption_class else ())))
        )


@cache
def published_classes() -> SimilarClasses:
    """Return the classes of the VCR paper."""
    file = files("eyechart.humans").joinpath("data", "similar_classes.yaml")
    return _classes(yaml.safe_load(file.read_text("utf-8")))


def find_classes(names: str | Sequence[str]) -> SimilarClasses:
    """Return the classes for "published", "none", or files written by `humans similar --out`.

    With several sources, a corruption's class comes from the first source that contains it:
    corruptions in a class from an earlier source are removed from later classes. A class with a
    single corruption left is dropped, and that corruption counts as not tested. Names of classes
    are made unique.
    """
    chosen = [names] if isinstance(names, str) else list(names)
    if NONE in chosen and len(chosen) > 1:
        raise UsageError(
            "--similar none cannot be combined with other values: pass only none or omit it."
        )
    named = {PUBLISHED: published_classes(), NONE: SimilarClasses("")}
    parts = [named[name] if name in named else read_classes(Path(name)) for name in chosen]
    classes: list[CorruptionClass] = []
    tested: dict[str, None] = {}
    for part in parts:
        # Only from earlier sources: within one source no corruption is in two classes.
        earlier = [member for earlier_class in classes for member in earlier_class.members]
        alone: set[str] = set()
        for corruption_class in part.classes:
            members = tuple(name for name in corruption_class.members if not _has(earlier, name))
            if len(members) < 2:
                # What remains of a class that an earlier source has split is not evidence for
                # this corruption.
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
    return SimilarClasses(
        "; ".join(part.source for part in parts),
        tuple(classes),
        tuple(tested),
        tuple(pair for part in parts for pair in part.pairs),
    )


def write_classes(path: Path, similar: SimilarClasses) -> None:
    """Write classes atomically to a YAML file that `find_classes` can read."""
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
        # Rounded for readability; further digits would exceed the precision of the bootstrap.
        "pairs": [
            {
                name: round(value, 6) if isinstance(value, float) else value
                for name, value in asdict(pair).items()
            }
            for pair in similar.pairs
        ],
    }
    with atomic_file(path) as temporary:
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
        temporary.write_text(text, encoding="utf-8")


def check_replaceable(path: Path) -> None:
    """Raise a UsageError if the path exists and is not a file of similar classes."""
    if not path.exists():
        return
    try:
        read_classes(path)
    except UsageError:
        raise UsageError(
            f"{path} already exists and is not a file of similar classes: choose another file."
        ) from None


def read_classes(path: Path) -> SimilarClasses:
    """Return the classes in a file; raise a UsageError if it is invalid."""
    try:
        content = parse_yaml(regular_file(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except ValueError as error:
        raise UsageError(
            f"{path} must be a YAML file of similar classes, got invalid YAML: {error}."
        ) from None
    try:
        return _classes(content)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} must be a file of similar classes written by eyechart humans similar --out:"
            f" {reason}."
        ) from None


def is_direct(experiment: str, corruption: str) -> bool:
    """Return whether humans saw this corruption itself in the experiment.

    A name without a suite matches every suite's corruption with that name: frost matches frost in
    ImageNet-C and in VCR, and uniform_noise, which only VCR has, matches vcr/uniform_noise. A name
    with a suite matches only that suite's corruption.
    """
    if experiment == corruption or SAME.get(experiment) == bare_name(corruption):
        return True
    # A qualified name matches only itself, and a published experiment only through `SAME`.
    if "/" in experiment or experiment in EXPERIMENTS:
        return False
    if experiment == bare_name(corruption):
        return True
    # Names are compared first, because looking one up reads all suites.
    return corruption.endswith(f"/{experiment}") and _resolved(experiment) == corruption


def direct_names(experiment: str) -> list[str]:
    """Return the corruptions in published suites that humans saw in an experiment."""
    return [name for name in all_entries() if is_direct(experiment, name)]


def bare_name(corruption: str) -> str:
    """Return the name without the prefix vcr/; other prefixes are kept."""
    return corruption.removeprefix("vcr/")


def grouped(names: Sequence[str], alike: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return groups of at least two names in which all pairs are similar, largest first.

    Similarity is not transitive, so a name joins a group only if it is similar to every member. A
    name that fits into several groups is put into the largest, or into the first of several equally
    large groups.

    Example:
        >>> grouped(["a", "b", "c"], [("a", "b"), ("b", "c")])
        [('a', 'b')]
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
    """Return whether a corruption or experiment is among the members, with or without its suite."""
    # Published experiments are looked up by the corruption whose class they belong to.
    names = {name, EXPERIMENTS.get(name, name)}
    # In both directions, because either name may lack its suite.
    return any(
        is_direct(m, candidate) or is_direct(candidate, m) for m in members for candidate in names
    )


@cache
def _resolved(name: str) -> str | None:
    try:
        return find_entry(name).name
    except UsageError:
        return None


def _classes(content: object) -> SimilarClasses:
    if not isinstance(content, Mapping) or content.get("kind") != KIND:
        raise ValueError(f"kind must be {KIND}")
    if content.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION}, got {content.get('version')}")
    source = str(content["source"])
    classes = tuple(_class(record, source) for record in content["classes"])
    members = [name for corruption_class in classes for name in corruption_class.members]
    for name in members:
        # A corruption in two classes would have two sources of transferred responses.
        if members.count(name) > 1:
            raise ValueError(f"{name} must be in one class, but is in {members.count(name)}")
    pairs = tuple(ComparedPair(**pair) for pair in content.get("pairs") or ())
    tested = dict.fromkeys((*map(str, content.get("tested") or ()), *members))
    return SimilarClasses(source, classes, tuple(tested), pairs)


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
    # By type, because a bool is an instance of int.
    if p is not None and not (type(p) in (int, float) and 0 <= p <= 1):
        raise ValueError(f"p of {content['name']} must be a number from 0 to 1, got {p!r}")
    if n is not None and not (type(n) is int and n >= 0):
        raise ValueError(f"n of {content['name']} must be a whole number of at least 0, got {n!r}")
    return CorruptionClass(**{"source": source, **content, "members": tuple(map(str, members))})
