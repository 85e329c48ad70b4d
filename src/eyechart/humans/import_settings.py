"""Formats of tables of human responses, and options for importing them, declared once.

This module imports nothing slow, because the command line is built from these records.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.core.options import Option
from eyechart.core.registry import Registry, one_of

if TYPE_CHECKING:
    from eyechart.humans.human_responses import HumanResponses

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
