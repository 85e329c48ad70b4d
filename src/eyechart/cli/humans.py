"""`eyechart humans`: people's answers to compare models with; list, import, plot, compare."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.humans_pairs import print_pairs
from eyechart.cli.paths import check_file_to_write, folder_or_file
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.humans.reference import Reference

app = typer.Typer(help="People's answers to compare models with.", no_args_is_help=True)

Rule = Annotated[
    str | None,
    typer.Option(
        "--clean-answers",
        help="For consistency, which clean answer counts: given, majority or random.",
    ),
]


@app.command("list")
def list_references(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]…", help="Imported files to list besides.")
    ] = None,
) -> None:
    """List references: experiments, people, answers, range of Δv, what they stand for."""
    from eyechart.humans.reference import PACKAGED, find_reference

    # all are read before anything is said of one
    for reference in [find_reference(name) for name in (*PACKAGED, *(files or ()))]:
        print(f"{reference.name}: {_choices(reference)}")
        if reference.citation:
            licence = reference.answers.licence
            print(f"  {reference.citation}{f' {licence}.' if licence else ''}")
        for experiment in reference.answers.experiments:
            print(f"  {_line(reference, experiment)}")


@app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", parser=folder_or_file, help="Tables: .csv or .csv.gz."),
    ],
    form: Annotated[
        str, typer.Option("--format", help="model-vs-human, counts or trials: see the docs.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.parquet", parser=folder_or_file, help="Where to write.")
    ],
    corruption: Annotated[
        str | None, typer.Option(help="What was done to the pictures, if the tables do not say.")
    ] = None,
    choices: Annotated[
        int | None, typer.Option(help="Between how many answers people chose.", min=2)
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(help="Whose conditions these are: noise, lowpass or contrast."),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=folder_or_file,
            help="Same/different judgements to keep with the answers: columns a, b, same.",
        ),
    ] = None,
    label_space: Annotated[
        str | None, typer.Option(help="What the labels are, if not the 16 categories.")
    ] = None,
    citation: Annotated[str, typer.Option(help="Whose data it is.")] = "",
    licence: Annotated[str, typer.Option(help="The data's licence.")] = "",
) -> None:
    """Turn tables of answers into one Parquet file that other commands take as a reference."""
    from eyechart.humans.importers import COUNTS_CHOICES, import_answers
    from eyechart.humans.records import write_answers
    from eyechart.humans.reference import Reference

    check_file_to_write(out)
    if out.suffix != ".parquet":
        raise UsageError(f"--out writes Parquet: end its name in .parquet, not '{out.suffix}'.")
    answers = import_answers(
        files,
        form,
        corruption=corruption,
        choices=choices,
        placement=placement,
        label_space=label_space,
        judgements=judgements,
        citation=citation,
        licence=licence,
    )
    write_answers(out, answers)
    reference = Reference(out.stem, answers)
    print(f"{out}: {_choices(reference)}")
    for experiment in answers.experiments:
        print(f"  {_line(reference, experiment)}")
    if form == "counts" and choices is None:
        print(f"Taken to be {COUNTS_CHOICES} choices, the usual of this format; see --choices.")


@app.command("plot")
def plot(
    out: Annotated[
        Path, typer.Option(metavar="FILE.png", parser=folder_or_file, help="Where to draw.")
    ],
    reference: Annotated[
        str, typer.Argument(metavar="[REFERENCE]", help="geirhos, or an imported file.")
    ] = "geirhos",
    clean_answers: Rule = None,
) -> None:
    """Draw people's curves with their 95 % bands, and the rates that they go through."""
    from eyechart.core.files import atomic_file
    from eyechart.humans.reference import find_reference
    from eyechart.reports.human_plot import draw_reference, is_drawn

    check_file_to_write(out)
    if out.suffix.lower() != ".png":
        raise UsageError(f"--out writes PNG: end its name in .png, not '{out.suffix}'.")
    found = find_reference(reference, clean_answers)
    if out.exists() and not is_drawn(out):
        raise UsageError(f"{out} is there already and is no plot of people: choose another --out.")
    with atomic_file(out) as temporary:
        draw_reference(found, temporary)
    print(f"{out}: {', '.join(found.answers.experiments)} of {found.name}.")


@app.command("place")
def place_conditions(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGES…", parser=folder_or_file, help="Photographs or folders."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.csv", parser=folder_or_file, help="Where to write.")
    ],
) -> None:
    """Measure the visual change of the published conditions on photographs of your own."""
    from eyechart.humans.placement import LEVELS, place, write_placements

    check_file_to_write(out)
    placements, count = place(images)
    write_placements(out, placements, count)
    for name, placement in placements.items():
        middles = (f"{own[len(LEVELS) // 2]:.2f}" for own in placement.quantiles.values())
        print(f"{name}: median Δv {', '.join(middles)}")
    print(f"{out}: quantiles over {count} {'picture' if count == 1 else 'pictures'}.")


@app.command("similar")
def similar(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="geirhos, an imported file, or a same/different study."
        ),
    ],
    a: Annotated[
        str | None, typer.Argument(metavar="[A]", help="A corruption or experiment in it.")
    ] = None,
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="Another one.")] = None,
    clean_answers: Rule = None,
) -> None:
    """Say whether corruptions look alike: 83 % bands of two curves, and judgements.

    Of a same/different study all pairs are listed unless two corruptions are named.
    """
    from eyechart.humans.same_different import judgements_file

    if a is not None and a == b:
        raise UsageError(f"{a} is given twice: give two experiments.")
    if (a is None) != (b is None):
        raise UsageError(f"Two corruptions are compared, got {a} only: name another one.")
    file = judgements_file(Path(reference))
    if file is not None:
        print_pairs(file, a, b)
        return
    from eyechart.core.registry import unknown_name
    from eyechart.humans.reference import WHICH, find_reference
    from eyechart.humans.similarity import asked, bands_apart

    found = find_reference(reference, clean_answers)
    if a is None or b is None:
        raise UsageError(
            f"Name the two to compare; {found.name} has {', '.join(found.answers.experiments)}."
        )
    for name in (a, b):
        if name not in found.answers.experiments:
            raise unknown_name("experiment", name, found.answers.experiments)
    for which in WHICH:
        one, two = found.curve(a, which), found.curve(b, which)
        if one is None or two is None:
            continue
        print(f"{which}: {_apart(bands_apart(one, two))}")
    told = asked(found.answers.judgements, a, b)
    if told is None:
        print("No same/different judgements of this pair.")
    else:
        print(
            f"Judged the same {told.same} of {told.total} times:"
            f" p = {told.p_value:.4g} against one half (binomial, two-sided)."
        )


def _apart(stretches: list[tuple[float, float]]) -> str:
    if not stretches:
        return "the 83 % bands overlap wherever both were seen: not told apart."
    where = ", ".join(f"{start:.2f} to {end:.2f}" for start, end in stretches)
    return f"the 83 % bands are apart at Δv {where}: different."


def _choices(reference: "Reference") -> str:
    words = f"{reference.choices} choices"
    return words if reference.label_space == words else f"{words} ({reference.label_space})"


def _line(reference: "Reference", experiment: str) -> str:
    """Return how much an experiment holds and what it speaks for."""
    import numpy as np

    from eyechart.humans.transfer import members_of

    own = reference.answers.only(reference.answers.corruption == experiment)
    seen = own.delta_v[~np.isnan(own.delta_v)]
    where = f"Δv {seen.min():.2f} to {seen.max():.2f}" if seen.size else "no Δv"
    known = [
        name
        for name, values in (("accuracy", own.correct), ("consistency", own.consistent))
        if not np.isnan(values).all()
    ]
    start = reference.left_end(experiment)
    clean = ""
    if start is not None:
        clean = f", {start.rate:.3f} right of clean pictures"
        clean += "" if start.own else " (shown to others)"
    return (
        f"{experiment}: {reference.size_in_words(experiment)}, {where}, {' and '.join(known)}"
        f"{clean}; for {', '.join(members_of(experiment))}"
    )
