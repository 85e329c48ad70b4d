"""`eyechart list`: a table for people, one name per line for programs."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

app = typer.Typer(help="List corruptions or suites.", no_args_is_help=True)


@app.command("corruptions")
def corruptions(
    suite: Annotated[
        str | None, typer.Option(help="Only those of a suite: a name or a YAML file.")
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="Only those of a family or group: noise, blur, weather, …")
    ] = None,
) -> None:
    """List the corruptions; into a pipe only their names, one per line."""
    from eyechart.suites.catalogue import select

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
def suites() -> None:
    """List the published suites."""
    from eyechart.suites.suite import PUBLISHED, load_suite

    found = [load_suite(name) for name in PUBLISHED]
    rows = [(suite.name, str(len(suite)), suite.title, suite.source) for suite in found]
    _show(("suite", "corruptions", "title", "source"), rows)


def _show(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not sys.stdout.isatty():
        for row in rows:
            print(row[0])
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", border_style="dim")
    for place, title in enumerate(head):
        table.add_column(title, style="bold" if place == 0 else None, no_wrap=place == 0)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
