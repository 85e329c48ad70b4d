"""`eyechart humans list`, `import` and `merge`: human references and their files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import check_file_to_write, folder_or_file
from eyechart.core.errors import UsageError
from eyechart.humans.import_settings import ImportSettings

if TYPE_CHECKING:
    from eyechart.humans.human_responses import HumanResponses
    from eyechart.humans.reference import Reference

ParquetOut = Annotated[
    Path, typer.Option(metavar="FILE.parquet", parser=folder_or_file, help="File to write.")
]


@examples(
    "eyechart humans list",
    "eyechart humans list study.parquet",
)
def list_references(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]…", help="Imported files to list as well.")
    ] = None,
) -> None:
    """List human references with their experiments, participants, responses and range of Δv."""
    from eyechart.humans.reference import PACKAGED, find_reference

    # read all before printing any
    for reference in [find_reference(name) for name in (*PACKAGED, *(files or ()))]:
        print(f"{reference.name}: {_choices(reference)}")
        if reference.citation:
            license = reference.responses.license
            print(f"  {reference.citation}{f' {license}.' if license else ''}")
        _print_experiments(reference)


@examples(
    "eyechart humans import responses.csv --format trials --out study.parquet",
    "eyechart humans import a.csv --format trials --choices 16 --out study.parquet",
)
@derived_options
def import_files(settings: ImportSettings, out: ParquetOut) -> None:
    """Convert tables of human responses to a reference file that --humans accepts."""
    from eyechart.humans.importers import counts
    from eyechart.humans.importing import import_responses

    _check_parquet(out)
    reference = _write(out, import_responses(**vars(settings)))
    print(f"{out}: {_choices(reference)}")
    _print_experiments(reference)
    if settings.form == "counts" and settings.choices is None:
        print(f"Assumed {counts.CHOICES} choices, the default of this format; see --choices.")


@examples(
    "eyechart humans merge geirhos study.parquet --out both.parquet",
    "eyechart humans merge first.parquet second.parquet --out pooled.parquet",
)
def merge_references(
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="REFERENCE…",
            help="Human references: geirhos, imported files, or study folders.",
        ),
    ],
    out: ParquetOut,
) -> None:
    """Merge human references into one file, pooling responses to the same corruption."""
    from eyechart.humans.combined import merge
    from eyechart.humans.reference import find_reference

    _check_parquet(out)
    if len(references) < 2:
        raise UsageError("Give at least two references to merge.")
    parts = [find_reference(name) for name in references]
    reference = _write(out, merge(parts))
    print(f"{out}: {_choices(reference)}, from {', '.join(part.name for part in parts)}")
    _print_experiments(reference)


def _check_parquet(out: Path) -> None:
    check_file_to_write(out)
    if out.suffix != ".parquet":
        raise UsageError(f"--out must end in .parquet, got '{out.suffix}'.")


def _write(out: Path, responses: "HumanResponses") -> "Reference":
    """Write the responses, and return them as a reference."""
    from eyechart.humans.human_responses import write_responses
    from eyechart.humans.reference import Reference

    write_responses(out, responses)
    return Reference(out.stem, responses)


def _choices(reference: "Reference") -> str:
    words = f"{reference.choices} choices"
    return words if reference.label_space == words else f"{words} ({reference.label_space})"


def _print_experiments(reference: "Reference") -> None:
    from eyechart.humans.dropped_trials import simulated_note

    if note := simulated_note(reference):
        print(f"Note: {note}")
    for experiment in reference.responses.experiments:
        print(f"  {_line(reference, experiment)}")


def _line(reference: "Reference", experiment: str) -> str:
    """Return a line with an experiment's size and the corruptions it is a reference for."""
    import numpy as np

    responses = reference.responses.only(reference.responses.corruption == experiment)
    seen = responses.delta_v[~np.isnan(responses.delta_v)]
    if not seen.size:
        return (
            f"{experiment}: {reference.size_in_words(experiment)}, no Δv, so there are no"
            " curves, only error consistency κ"
        )
    where = f"Δv {seen.min():.2f} to {seen.max():.2f}"
    known = [
        name
        for name, values in (("accuracy", responses.correct), ("consistency", responses.consistent))
        if not np.isnan(values).all()
    ]
    start = reference.left_end(experiment)
    clean = ""
    if start is not None:
        clean = f", accuracy on clean images {start.rate:.3f}"
        clean += "" if start.is_own else " (from other participants)"
    return (
        f"{experiment}: {reference.size_in_words(experiment)}, {where}, {' and '.join(known)}"
        f"{clean}; {_matched(reference, experiment)}"
    )


def _matched(reference: "Reference", experiment: str) -> str:
    """Return text that names the corruptions for which an experiment is a reference."""
    from eyechart.corruptions.suites.suite import all_entries
    from eyechart.humans.transfer import direct_names

    direct = direct_names(experiment)
    words = [f"direct for {', '.join(direct)}"] if direct else []
    alike = reference.similar.find(experiment)
    if alike is not None:
        transferred = [
            name
            for name in all_entries()
            if name not in direct and reference.similar.find(name) is alike
        ]
        words.append(
            f"transferred to {', '.join(transferred)} ({alike.name} class, {alike.evidence})"
        )
    if not words:
        return f"matches no corruption in a suite; used for a custom corruption named {experiment}"
    return "; ".join(words)
