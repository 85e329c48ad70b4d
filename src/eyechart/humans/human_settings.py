"""Options for comparing models with humans and for importing human responses, each declared once.

This module imports nothing slow, because the command line is built from these records.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from eyechart.core.arguments import FilePath, as_paths
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.registry import Registry, one_of
from eyechart.images.labels.spaces import DEFAULT_RULE, RULES

if TYPE_CHECKING:
    from eyechart.humans.human_responses import HumanResponses

Paths: TypeAlias = FilePath | Sequence[FilePath]

NO_HUMANS = "none"

HumanReferences = Annotated[
    Paths | None,
    Option(
        help="Human reference: geirhos (default), a file, a study or none; can be repeated, in"
        " order of precedence.",
        group="Human reference",
        cli_type=list[str],
    ),
]
"""The --humans option, for the settings of all commands that compare models with humans."""

CLEAN_RESPONSES = ("given", "majority", "random")
"""Which response to the clean image is used: the response in the file, the most common response of
other humans, or another human's response drawn at random.
"""


@dataclass(frozen=True, kw_only=True)
class HumanSettings:
    """Options of every command that reads a human reference."""

    clean_responses: Annotated[
        str | None,
        Option(
            help=f"Which response to the clean image determines whether a human response is"
            f" consistent: {one_of(CLEAN_RESPONSES)}.",
            group="Human reference",
            is_advanced=True,
            flags=("--clean-responses",),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings(HumanSettings):
    """Options that choose the human references and map classes to the human categories."""

    rule: Annotated[
        str,
        Option(
            help=f"Rule that maps 1,000 classes to 16 categories: {one_of(RULES)}.",
            group="Human reference",
            is_advanced=True,
        ),
    ] = DEFAULT_RULE
    humans: HumanReferences = "geirhos"
    similar: Annotated[
        Paths,
        Option(
            help="Classes of corruptions that share human responses: published (default), none, or"
            " a file written by eyechart humans similar --out; repeatable.",
            group="Human reference",
            is_advanced=True,
            metavar="FILE",
            cli_type=list[str],
        ),
    ] = "published"
    chance_correct: Annotated[
        bool,
        Option(
            help="Also compare with humans who had more or fewer than 16 choices, correcting for"
            " chance.",
            group="Human reference",
            is_advanced=True,
        ),
    ] = False

    @property
    def human_names(self) -> tuple[str, ...]:
        """Requested human references in order of precedence."""
        if self.humans is None:
            return ()
        names = tuple(os.fspath(name) for name in as_paths(self.humans, "humans"))
        if NO_HUMANS in names:
            # "none" contradicts any other reference.
            if len(names) > 1:
                raise UsageError(
                    "--humans none cannot be combined with other values: pass only none or omit it."
                )
            return ()
        return names

    @property
    def similar_names(self) -> tuple[str, ...]:
        """Sources of the classes of similar corruptions, in order of precedence."""
        return tuple(os.fspath(name) for name in as_paths(self.similar, "similar"))


GROUP = "Data"

Importer = Callable[[Sequence[Path], "ImportSettings"], "HumanResponses"]
"""Function that returns the responses in files; the settings supply values that the files lack."""

FORMATS: Registry[Importer] = Registry("format")
FORMATS.add_lazily("counts", "eyechart.humans.importing:read_counts")
FORMATS.add_lazily("model-vs-human", "eyechart.humans.importing:read_model_vs_human")
FORMATS.add_lazily("trials", "eyechart.humans.importing:read_trials")
FORMATS.add_lazily("vcr", "eyechart.humans.importing:read_vcr")


@dataclass(frozen=True)
class ImportSettings:
    """Options that name the tables to import and supply metadata that they lack."""

    files: Annotated[
        Sequence[Path],
        Option(
            help="Tables to import, as .csv or .csv.gz files.",
            group=GROUP,
            metavar="FILE…",
            path="folder or file",
            cli_type=list[Path],
            is_argument=True,
        ),
    ]
    form: Annotated[
        str,
        Option(
            help=f"Format of the tables: {one_of(FORMATS)}; see the docs.",
            group=GROUP,
            flags=("--format",),
        ),
    ]
    _: KW_ONLY
    corruption: Annotated[
        str | None,
        Option(help="Corruption of the images, if the tables do not name it.", group=GROUP),
    ] = None
    choices: Annotated[
        int | None,
        Option(
            help="Number of choices that participants had.",
            group=GROUP,
            python="Defaults to 16 for the 16 categories, and to 2 for counts.",
            minimum=2,
        ),
    ] = None
    placement: Annotated[
        str | None,
        Option(
            help="Published experiment whose conditions determine Δv: noise, lowpass or contrast."
            " Without a placement or a column delta_v, only error consistency κ is computed, and no"
            " curves are fitted.",
            group=GROUP,
        ),
    ] = None
    judgements: Annotated[
        Path | None,
        Option(
            help="Same/different judgements to store with the responses: columns a, b, shown_same,"
            " same, and subject if known.",
            group=GROUP,
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    label_space: Annotated[
        str | None, Option(help="Label space, if not the 16 categories.", group=GROUP)
    ] = None
    citation: Annotated[str, Option(help="Citation of the data.", group=GROUP)] = ""
    license: Annotated[str, Option(help="License of the data.", group=GROUP)] = ""
