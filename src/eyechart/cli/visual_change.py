"""`eyechart visual-change`: measure the visual change of an image or of a folder of images."""

import sys
from contextlib import ExitStack, closing
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.progress import progress_bar
from eyechart.cli.shared.stop import USAGE, Stop
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.phrases import count_of
from eyechart.visual_change.registry import DEFAULT_RULER, MeasureSettings, find_ruler

if TYPE_CHECKING:
    from eyechart.visual_change.pairs import ImagePair, PairOutcome, Row

MOST_LINES = 40
"""Maximum number of images listed on the terminal; longer lists are summarized."""

WIDEST_NAME = 40
MAP_NOTE = "map of visual change"


@examples(
    "eyechart visual-change clean.png corrupted.png --map lost.png",
    "eyechart visual-change photos foggy --csv changes.csv",
)
@derived_options
def visual_change(
    clean: Annotated[
        Path,
        Option(
            help="A clean image or folder of images.",
            group="Data",
            metavar="CLEAN",
            path="folder or file",
            is_argument=True,
        ),
    ],
    corrupted: Annotated[
        Path,
        Option(
            help="The corrupted image, or a folder with the same file names.",
            group="Data",
            metavar="CORRUPTED",
            path="folder or file",
            is_argument=True,
        ),
    ],
    map_to: Annotated[
        Path | None,
        Option(
            help="Also draw where information was lost: a PNG file, or a folder if folders are"
            " compared.",
            group="Output",
            flags=("--map",),
            metavar="PATH",
            path="folder or file",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        Option(
            help="Write a table; an interrupted run resumes from it.",
            group="Output",
            flags=("--csv",),
            metavar="FILE",
            path="folder or file",
        ),
    ] = None,
    *,
    settings: MeasureSettings,
) -> None:
    """Measure the visual change Δv of corrupted images."""
    from eyechart.core.devices import find_device
    from eyechart.visual_change.measure_inputs import check_options, find_dtype
    from eyechart.visual_change.pairs import find_pairs
    from eyechart.visual_change.vif.rulers import find_mapped

    # only for their checks, before any image is read
    check_options(find_ruler(settings.ruler), find_dtype(settings.dtype), differentiable=False)
    find_device(settings.device)
    if map_to is not None:
        find_mapped(settings.ruler)
    pairs, alone = find_pairs(clean, corrupted)
    maps = None if map_to is None else _maps(clean, corrupted, map_to, pairs)
    if table is not None:
        check_file_to_write(table)
    if alone:
        some = ", ".join(map(str, alone[:3])) + (", …" if len(alone) > 3 else "")
        print(f"{count_of(len(alone), 'image')} without a counterpart: {some}.", file=sys.stderr)
    outcomes = _work(pairs, table, maps, settings)
    rows = [outcome.row for outcome in outcomes if outcome.row is not None]
    _print(rows)
    left_out = len(outcomes) - len(rows)
    if left_out:
        images = count_of(left_out, "image")
        raise Stop(f"{images} of {len(pairs)} skipped, for the reasons above.", USAGE)


def _work(
    pairs: "list[ImagePair]",
    table: Path | None,
    maps: "dict[ImagePair, Path] | None",
    settings: MeasureSettings,
) -> "list[PairOutcome]":
    from eyechart.visual_change.pairs import appending, measure_pairs, read_table, write_table

    known = {} if table is None else read_table(table, [pair.name for pair in pairs])
    single = len(pairs) == 1
    outcomes: list[PairOutcome] = []
    try:
        with ExitStack() as stack:
            append = None
            if table is not None:
                append = stack.enter_context(appending(table))
            step = stack.enter_context(progress_bar("visual change", len(pairs)))
            for outcome in stack.enter_context(closing(measure_pairs(pairs, settings, known))):
                if outcome.row is not None:
                    if append is not None and not outcome.kept:
                        append(outcome.row)
                    if maps is not None:
                        _draw(outcome.pair, outcome.row, maps[outcome.pair], settings.ruler)
                elif single:
                    raise UsageError(outcome.why)
                outcomes.append(outcome)
                step(1, outcome.why)
    except KeyboardInterrupt:
        _print([outcome.row for outcome in outcomes if outcome.row is not None])
        advice = (
            "run the same command again to resume" if table else "runs with --csv can be resumed"
        )
        done = f"{len(outcomes)} of {count_of(len(pairs), 'image')} measured"
        raise Stop(f"Stopped: {done}; {advice}.") from None
    if table is not None:
        # rows were appended as they were finished; the final table has the order of the pairs
        order = {pair.name: index for index, pair in enumerate(pairs)}
        rows = [outcome.row for outcome in outcomes if outcome.row is not None]
        write_table(table, sorted(rows, key=lambda row: order[row.name]))
    return outcomes


def _maps(
    clean: Path, corrupted: Path, map_to: Path, pairs: "list[ImagePair]"
) -> "dict[ImagePair, Path]":
    """Return the file for each pair's map; existing files are overwritten only if they are maps."""
    from eyechart.images.image_files import read_note

    maps = {pair: map_to for pair in pairs}
    if clean.is_dir():
        if map_to.is_file():
            raise UsageError(f"Cannot write into {map_to}: it is a file, not a folder.")
        for source in (clean, corrupted):
            if resolved_path(map_to).is_relative_to(resolved_path(source)):
                raise UsageError(f"--map must be outside {source}: maps would be read as images.")
        maps = {pair: map_to / f"{pair.name}.png" for pair in pairs}
    else:
        check_file_to_write(map_to)
        if map_to.suffix.lower() != ".png":
            raise UsageError(f"--map must end in .png, got '{map_to.suffix}'.")
    for target in maps.values():
        is_source = resolved_path(target) in (
            resolved_path(clean),
            resolved_path(corrupted),
        )
        if target.exists() and (is_source or read_note(target) != MAP_NOTE):
            raise UsageError(f"{target} already exists and is not a map: choose another --map.")
    return maps


def _draw(pair: "ImagePair", row: "Row", target: Path, ruler: str) -> None:
    from eyechart.images.image_files import read_image, write_image
    from eyechart.reports.figures.image_sheets import draw_map
    from eyechart.visual_change.pairs import gray_of
    from eyechart.visual_change.vif.rulers import find_mapped, loss_map

    clean, corrupted = read_image(pair.clean), read_image(pair.corrupted)
    statistics = find_mapped(ruler).describe_gray(gray_of(clean))
    lost = loss_map(statistics, gray_of(corrupted))[0].numpy()
    change = f"{row.delta_v:.3f}" if row.measurable else "not measurable"
    notes = "".join(f", {note}" for note in _kinds(row))
    headline = f"visual change {change}, VIF {row.vif:.3f}{notes}"
    drawn = lost if row.measurable else None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sheet = draw_map(clean, corrupted, drawn, headline, row.name)
        write_image(sheet, target, note=MAP_NOTE)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None


def _print(rows: "list[Row]") -> None:
    from statistics import mean, median

    if len(rows) <= MOST_LINES:
        names = ["".join(c if c.isprintable() else "?" for c in row.name) for row in rows]
        width = min(WIDEST_NAME, max(map(len, names), default=0))
        for row, name in zip(rows, names, strict=True):
            print(f"{name:{width}}  {_measured(row)}")
    if len(rows) < 2:
        return
    used = sorted({row.scales for row in rows})
    for scales in used:
        # values with different numbers of scales are not comparable
        values = [row.delta_v for row in rows if row.measurable and row.scales == scales]
        of_scales = f" measured at {scales} scales" if len(used) > 1 else ""
        if values:
            print(
                f"{count_of(len(values), 'image')}{of_scales}: Δv mean {mean(values):.4f}, median"
                f" {median(values):.4f}, from {min(values):.4f} to {max(values):.4f}."
            )
    lacking = sum(not row.measurable for row in rows)
    if lacking:
        images = count_of(lacking, "image")
        print(f"{images} left out of the summary: too little contrast to measure Δv.")


def _measured(row: "Row") -> str:
    """Return Δv, VIF if it was measured, the raw value if it differs, and notes.

    A nearly constant image has a VIF, but no Δv.
    """
    from eyechart.visual_change.ruler import DELTA_V

    has_vif = row.vif == row.vif
    values = {DELTA_V: row.delta_v}
    if has_vif:
        values["VIF"] = row.vif
    raw_name = find_ruler(row.ruler).raw_name
    if raw_name != DELTA_V:
        values[raw_name] = row.raw
    notes = _kinds(row)
    if not row.measurable:
        why = "nearly constant or a pure grating" if has_vif else "nearly constant"
        notes.append(f"no Δv, because the clean image is {why}")
    elif row.ill_conditioned:
        notes.append("ill-conditioned, computed in float64")
    numbers = "  ".join(
        f"{title} {'–' if isnan(value) else f'{value:.4f}'}" for title, value in values.items()
    )
    return f"{numbers}  ({'; '.join(notes)})" if notes else numbers


def _kinds(row: "Row") -> list[str]:
    """Return how the measurement in the row differs from the default."""
    from eyechart.visual_change.vif.pyramid import MOST_SCALES

    kinds = [] if row.ruler == DEFAULT_RULER else [row.ruler]
    # the pyramid of VIF; the scales of other rulers are another matter
    if row.scales != MOST_SCALES and row.vif == row.vif:
        kinds.append(f"{row.scales} scales instead of {MOST_SCALES}")
    return kinds
