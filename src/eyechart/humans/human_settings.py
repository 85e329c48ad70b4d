"""The options by which models are compared with humans, each declared once.

Nothing slow is imported here: the command line is made from these.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from eyechart.core.arguments import FilePath, as_paths
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.registry import one_of
from eyechart.labels.rules import DEFAULT_RULE, RULES

Paths: TypeAlias = FilePath | Sequence[FilePath]

NO_HUMANS = "none"

CLEAN_RESPONSES = ("given", "majority", "random")
"""Which response to the clean image counts: the file's own, the commonest of other humans', or one
drawn from them."""


@dataclass(frozen=True, kw_only=True)
class HumanSettings:
    """What every command that reads a human reference has in common."""

    clean_responses: Annotated[
        str | None,
        Option(
            help="For consistency, which response to the clean image humans' are compared with:"
            f" {one_of(CLEAN_RESPONSES)}.",
            group="Human reference",
            flags=("--clean-responses", "--clean-answers"),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings(HumanSettings):
    """With whom models are compared, and how their classes become humans' categories."""

    rule: Annotated[
        str,
        Option(
            help=f"From 1,000 classes to 16 categories: {one_of(RULES)}.",
            group="Human reference",
        ),
    ] = DEFAULT_RULE
    humans: Annotated[
        Paths | None,
        Option(
            help="Human reference: geirhos (default), a file, a study, or none; repeatable in order"
            " of precedence, responses to a corruption itself before transferred ones.",
            group="Human reference",
            typed=list[str],
        ),
    ] = "geirhos"
    similar: Annotated[
        Paths,
        Option(
            help="Classes within which human responses are transferred: published (default), none,"
            " or a file of eyechart humans similar --out; repeatable.",
            group="Human reference",
            metavar="FILE",
            typed=list[str],
        ),
    ] = "published"
    match_choices: Annotated[
        bool,
        Option(
            help="Compare with people who had not 16 choices, both corrected for chance.",
            group="Human reference",
        ),
    ] = False

    @property
    def human_names(self) -> tuple[str, ...]:
        """The human references that were asked for, in order of precedence."""
        if self.humans is None:
            return ()
        names = tuple(os.fspath(name) for name in as_paths(self.humans, "humans"))
        if NO_HUMANS in names:
            if len(names) > 1:
                raise UsageError("--humans none stands alone: leave out none, or the others.")
            return ()
        return names

    @property
    def similar_names(self) -> tuple[str, ...]:
        """Where the classes of similar corruptions come from, in order of precedence."""
        return tuple(os.fspath(name) for name in as_paths(self.similar, "similar"))
