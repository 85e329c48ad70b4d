"""`eyechart visual-change`: what a person would see changed, for two pictures or two folders."""

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.paths import check_file_to_write, folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    import torch

    from eyechart.visual_change.pairs import ImagePair, PairOutcome
    from eyechart.visual_change.table import Row

MOST_LINES = 40
"""Of longer lists the terminal shows the summary only."""

WIDEST_NAME = 40
MAP_NOTE = "map of visual change"


def visual_change(
    clean: Annotated[
        Path,
        typer.Argument(
            metavar="CLEAN", parser=folder_or_file, help="A picture, or a folder of them."
        ),
    ],
    corrupted: Annotated[
        Path,
        typer.Argument(
            metavar="CORRUPTED",
            parser=folder_or_file,
            help="The same picture, corrupted, or a folder of the same names.",
        ),
    ],
    map_to: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="PATH",
            parser=folder_or_file,
            help="Also draw where information was lost (not for pixel): a PNG file, or a folder"
            " for folders.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            parser=folder_or_file,
            help="Write a table; a run that was stopped goes on with it.",
        ),
    ] = None,
    definition: Annotated[str, typer.Option(help="vcr, sheikh2006 or pixel.")] = "vcr",
    dtype: Annotated[
        str, typer.Option(help="float64, or float32, which is faster on a GPU.")
    ] = "float64",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Print the visual change Δv (0: none, 1: nothing is left) and VIF of corrupted pictures."""
    from eyechart.core.devices import find_device
    from eyechart.visual_change.measure import find_dtype, find_vif
    from eyechart.visual_change.pairs import find_pairs
    from eyechart.visual_change.vif.maps import find_mapped

    find_vif(definition)
    kind, where = find_dtype(dtype), find_device(device)
    if map_to is not None:
        find_mapped(definition)
    pairs, alone = find_pairs(clean, corrupted)
    maps = None if map_to is None else _maps(map_to, clean, corrupted, pairs)
    if table is not None:
        check_file_to_write(table)
    if alone:
        some = ", ".join(map(str, alone[:3])) + (", …" if len(alone) > 3 else "")
        print(f"{_count(len(alone))} without a partner: {some}.", file=sys.stderr)
    outcomes = _work(pairs, table, maps, (definition, kind, where))
    rows = [outcome.row for outcome in outcomes if outcome.row is not None]
    _print(rows)
    left_out = len(outcomes) - len(rows)
    if left_out:
        raise Stop(f"{_count(left_out)} of {len(pairs)} left out, for the reasons above.", 2)


def _work(
    pairs: "list[ImagePair]",
    table: Path | None,
    maps: "dict[ImagePair, Path] | None",
    how: "tuple[str, torch.dtype, torch.device]",
) -> "list[PairOutcome]":
    from eyechart.cli.shared.progress import progress_bar
    from eyechart.visual_change.pairs import measure_pairs
    from eyechart.visual_change.table import appending, read_table, write_table

    known = {} if table is None else read_table(table, [pair.name for pair in pairs])
    single = len(pairs) == 1
    outcomes: list[PairOutcome] = []
    try:
        with ExitStack() as stack:
            append = None
            if table is not None:
                append = stack.enter_context(appending(table))
            step = stack.enter_context(progress_bar("visual change", len(pairs)))
            for outcome in stack.enter_context(closing(measure_pairs(pairs, *how, known))):
                if outcome.row is not None:
                    if append is not None and not outcome.kept:
                        append(outcome.row)
                    if maps is not None:
                        _draw(outcome.pair, outcome.row, maps[outcome.pair], how[0])
                elif single:
                    raise UsageError(outcome.why)
                outcomes.append(outcome)
                step(1, outcome.why)
    except KeyboardInterrupt:
        _print([outcome.row for outcome in outcomes if outcome.row is not None])
        advice = "the same command goes on from there" if table else "with --csv it could go on"
        done = f"{len(outcomes)} of {_count(len(pairs))} measured"
        raise Stop(f"Stopped: {done}; {advice}.", 130) from None
    if table is not None:
        order = {pair.name: place for place, pair in enumerate(pairs)}
        rows = [outcome.row for outcome in outcomes if outcome.row is not None]
        write_table(table, sorted(rows, key=lambda row: order[row.name]))
    return outcomes


def _maps(
    map_to: Path, clean: Path, corrupted: Path, pairs: "list[ImagePair]"
) -> "dict[ImagePair, Path]":
    """Return where each pair's map goes; only maps are ever replaced."""
    from eyechart.images.image_files import read_note

    maps = {pair: map_to for pair in pairs}
    if clean.is_dir():
        if map_to.is_file():
            raise UsageError(f"Cannot write into {map_to}: it is a file, not a folder.")
        for source in (clean, corrupted):
            if map_to.resolve().is_relative_to(source.resolve()):
                raise UsageError(f"--map must lie outside {source}: its maps would be pictures.")
        maps = {pair: map_to / f"{pair.name}.png" for pair in pairs}
    else:
        check_file_to_write(map_to)
        if map_to.suffix.lower() != ".png":
            raise UsageError(f"--map writes PNG: end its name in .png, not '{map_to.suffix}'.")
    for target in maps.values():
        given = target.resolve() in (clean.resolve(), corrupted.resolve())
        if target.exists() and (given or read_note(target) != MAP_NOTE):
            raise UsageError(f"{target} is there already and is no map: choose another --map.")
    return maps


def _draw(pair: "ImagePair", row: "Row", target: Path, definition: str) -> None:
    from eyechart.images.image_files import read_picture, write_picture
    from eyechart.reports.figures.change_map import draw_map
    from eyechart.visual_change.pairs import grey_of
    from eyechart.visual_change.vif.maps import find_mapped, loss_map

    clean, corrupted = read_picture(pair.clean), read_picture(pair.corrupted)
    statistics = find_mapped(definition).describe_grey(grey_of(clean))
    lost = loss_map(statistics, grey_of(corrupted))[0].numpy()
    # the font of pictures has no Greek
    change = f"{row.delta_v:.3f}" if row.measurable else "not measurable"
    notes = "".join(f", {note}" for note in _kinds(row))
    headline = f"visual change {change}, VIF {row.vif:.3f}{notes}"
    shown = lost if row.measurable else None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sheet = draw_map(clean, corrupted, shown, headline, row.name)
        write_picture(sheet, target, note=MAP_NOTE)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None


def _print(rows: "list[Row]") -> None:
    if len(rows) <= MOST_LINES:
        names = ["".join(c if c.isprintable() else "?" for c in row.name) for row in rows]
        width = min(WIDEST_NAME, max(map(len, names), default=0))
        for row, name in zip(rows, names, strict=True):
            print(f"{name:{width}}  Δv {_number(row.delta_v)}  VIF {row.vif:.4f}{_notes(row)}")
    if len(rows) < 2:
        return
    used = sorted({row.scales for row in rows})
    for scales in used:
        # other scales are another ruler
        own = [row.delta_v for row in rows if row.measurable and row.scales == scales]
        _print_summary(own, f" of {scales} scales" if len(used) > 1 else "")
    lacking = sum(not row.measurable for row in rows)
    if lacking:
        print(f"{_count(lacking)} too nearly constant for Δv, not counted.")


def _print_summary(values: list[float], which: str) -> None:
    from statistics import mean, median

    if values:
        print(
            f"{_count(len(values))}{which}: Δv mean {mean(values):.4f}, median"
            f" {median(values):.4f}, from {min(values):.4f} to {max(values):.4f}."
        )


def _kinds(row: "Row") -> list[str]:
    """Return what sets the row's ruler apart from the usual one."""
    kinds = [] if row.definition == "vcr" else [row.definition]
    return kinds if row.scales == 4 else [*kinds, f"{row.scales} scales instead of 4"]


def _notes(row: "Row") -> str:
    notes = _kinds(row)
    if not row.measurable:
        notes.append("the clean picture is too nearly constant, or a pure grating, for Δv")
    if row.ill_conditioned and row.measurable:
        notes.append("ill-conditioned, computed in float64")
    return f"  ({'; '.join(notes)})" if notes else ""


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4f}"


def _count(number: int) -> str:
    return f"{number} picture" if number == 1 else f"{number} pictures"
