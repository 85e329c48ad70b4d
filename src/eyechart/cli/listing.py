"""`eyechart list`: print a table on a terminal, or one name per line in a pipe."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from eyechart.cli.shared.derived_options import examples
from eyechart.cli.shared.help import CommandLine
from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.results.study_models import COUNTS, STUDIES

app = CommandLine(help="List corruptions, suites, models or published results.")


@app.command("corruptions")
@examples(
    "eyechart list corruptions",
    "eyechart list corruptions --suite imagenet-c --family weather",
)
def corruptions(
    suite: Annotated[str | None, typer.Option(help="Suite name or YAML file.")] = None,
    family: Annotated[
        str | None, typer.Option(help="List only this family or group: noise, blur, weather, …")
    ] = None,
) -> None:
    """List corruptions; in a pipe, print only their names, one per line."""
    from eyechart.corruptions.suites.catalogue import select

    entries = select(suite, family)
    rows = [
        (
            entry.name,
            entry.group,
            entry.corruption.summary,
            ", ".join(parameter.name for parameter in entry.corruption.parameters),
        )
        for entry in entries
    ]
    _show(("corruption", "group", "what it does", "parameters"), rows)


@app.command("suites")
@examples(
    "eyechart list suites",
    "eyechart list suites | wc -l",
)
def suites() -> None:
    """List the published suites."""
    from eyechart.corruptions.suites.suite import load_suite

    rows = [
        (suite.name, str(len(suite)), suite.title, suite.source)
        for suite in map(load_suite, PUBLISHED)
    ]
    _show(("suite", "corruptions", "title", "source"), rows)


@app.command("models")
@examples(
    "eyechart list models",
    "eyechart list models --study vcr",
)
def models(
    study: Annotated[
        str | None,
        typer.Option(help=f"List the models that a published study compared: {one_of(STUDIES)}."),
    ] = None,
) -> None:
    """List the built-in models and the prefixes of model libraries."""
    if study is not None:
        studied = STUDIES[study]
        _show(
            ("model", "category", "architecture"),
            [(model.spec, model.category, model.architecture) for model in studied],
        )
        if sys.stdout.isatty():
            for model in studied:
                if model.note:
                    print(f"{model.spec}: {model.note}.")
            print(COUNTS[study])
        return
    from eyechart.models.adapter import ADAPTERS
    from eyechart.models.find import NAMED

    rows = [(name, "a small network", "demo", _yes(_has_weights(name))) for name in NAMED]
    rows += [
        (f"{one.prefix}:{one.takes}", one.summary, one.extra, _yes(one.is_installed))
        for one in map(ADAPTERS.__getitem__, ADAPTERS)
    ]
    _show(("model", "what it is", "extra", "installed"), rows)


@app.command("published")
@examples(
    "eyechart list published",
    "eyechart list published | grep imagenet",
)
def published() -> None:
    """List the published results that eyechart compare can show."""
    from eyechart.results.published_results import published_tables

    rows = [
        (
            table.name,
            table.suite,
            str(len(table.models)),
            table.image_title,
            table.baseline or "–",
            table.source,
        )
        for table in published_tables()
    ]
    _show(("table", "suite", "rows", "images", "baseline", "source"), rows)


def _has_weights(name: str) -> bool:
    from eyechart.models.efficientnet_lite import find_weights

    try:
        find_weights(name)
    except UsageError:
        return False
    return True


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _show(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not sys.stdout.isatty():
        for row in rows:
            print(row[0])
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    table = Table(
        Column(head[0], style="bold", overflow="fold"),
        *(Column(title, overflow="fold") for title in head[1:]),
        box=box.SIMPLE_HEAD,
        header_style="bold",
        border_style="dim",
    )
    for row in rows:
        # names may contain square brackets, such as [/WEIGHTS]
        table.add_row(*map(escape, row))
    Console().print(table)
