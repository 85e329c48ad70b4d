"""`eyechart corrupt`: images in, corrupted ones out, with progress and resuming.

One corruption at one strength, or a whole benchmark in a published layout.
"""

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of
from eyechart.suites.published import WITH_LEVELS

if TYPE_CHECKING:
    from eyechart.suites.file_corruption import FileOutcome, Tally
    from eyechart.suites.folder import Settings


def corrupt(
    pictures: Annotated[
        list[Path],
        typer.Argument(
            metavar="PICTURE...", parser=folder_or_file, help="Picture files, or folders of them."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="PATH", parser=folder, help="The folder for the results."
        ),
    ],
    corruption: Annotated[
        list[str] | None,
        typer.Option(
            "--corruption",
            "-c",
            help="Its name: fog, vcr/frost, noc/rain, …; with --layout it can be repeated.",
        ),
    ] = None,
    severity: Annotated[
        float | None, typer.Option("--severity", "-s", help="Any number from 0 (clean) to 5.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Give a parameter; can be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other random parts.")] = 0,
    variant: Annotated[
        str | None, typer.Option(help="Another source's version of the corruption.")
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help=f"All corruptions of {one_of(WITH_LEVELS)}.")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            help="Write all five severities as they are published: imagenet-c"
            " (CORRUPTION/SEVERITY/CLASS/FILE) or cifar-c (CORRUPTION.npy)."
        ),
    ] = None,
    stimulus: Annotated[
        str | None,
        typer.Option(
            help="What images are brought to first: 224 or another side, WIDTHxHEIGHT (plain"
            " resize), or native; 224 for --layout imagenet-c, otherwise their own size."
        ),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="png or jpeg; png unless --layout is imagenet-c.")
    ] = None,
    jpeg_quality: Annotated[
        int | None,
        typer.Option(help="1 to 100, for --format jpeg; by default 85, as ImageNet-C is stored."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    frost_textures: Annotated[
        Path | None, typer.Option(help="A folder of frost photographs to use for frost.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results of other settings.")
    ] = False,
) -> None:
    """Corrupt pictures; folders keep their structure, and a run that was stopped goes on.

    With --layout, write a whole benchmark that loaders of ImageNet-C or CIFAR-10-C read.
    """
    from eyechart.core.devices import find_device
    from eyechart.suites.folder import Settings

    settings = Settings(
        corruption="",
        severity=severity,
        parameters=_parse(assignments or []),
        variant=variant,
        seed=seed,
        format=format or ("jpeg" if layout == "imagenet-c" else "png"),
        jpeg_quality=jpeg_quality,
        device=str(find_device(device)),
        frost_textures=None if frost_textures is None else str(frost_textures),
        stimulus=stimulus,
        layout=layout,
    )
    if layout is None:
        if suite is not None:
            raise UsageError("--suite is for whole benchmarks: give --layout imagenet-c as well.")
        _corrupt_one(pictures, corruption or [], settings, out, overwrite)
    else:
        from eyechart.suites.layouts import ARRAYS, check_layout

        check_layout(layout)
        given = {"--severity": severity, "--set": assignments, "--variant": variant}
        _refuse_in_layout(given | {"--overwrite": overwrite or None})
        if layout == ARRAYS:
            stored = {"--format": format if format != "png" else None}
            _refuse_in_arrays(stored | {"--jpeg-quality": jpeg_quality})
        _corrupt_layout(pictures, suite, corruption or [], settings, out)


def _corrupt_one(
    pictures: list[Path], names: list[str], settings: "Settings", out: Path, overwrite: bool
) -> None:
    from dataclasses import replace

    from eyechart.suites.file_corruption import Tally, corrupt_files
    from eyechart.suites.folder import check_settings, claim, complete, plan, search

    if len(names) != 1:
        raise UsageError(
            f"Give one --corruption, got {len(names)}; several are written with --layout."
        )
    settings = check_settings(replace(settings, corruption=names[0]))
    found, left_out = search(pictures, out)
    jobs = plan(found, out, settings.format)
    replacing = claim(out, settings, jobs, overwrite)
    _say_left_out(left_out, pictures, out)
    done = Tally()
    work = corrupt_files(jobs, settings, overwrite=overwrite, replacing=replacing, done=done)
    _work(work, done, settings.corruption, len(jobs), out)
    # Not where pictures were left out: older ones may still stand in their places.
    if replacing:
        complete(out, settings)


def _refuse_in_layout(given: Mapping[str, object]) -> None:
    """Raise a UsageError if any of these options, which are for one corruption, was given."""
    instead = {
        "--severity": "all five severities are written",
        "--set": "the published strengths are written",
        "--variant": "the published corruptions are written",
        "--overwrite": "delete what is to be made again",
    }
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"{option} is not for --layout: {instead[option]}.")


def _refuse_in_arrays(given: Mapping[str, object]) -> None:
    """Raise a UsageError if any of these options, which are for image files, was given."""
    for option, value in given.items():
        if value is not None:
            raise UsageError(
                f"{option} is not for --layout cifar-c: arrays hold the pixels themselves."
            )


def _corrupt_layout(
    pictures: list[Path], suite: str | None, names: list[str], settings: "Settings", out: Path
) -> None:
    from eyechart.suites import layouts
    from eyechart.suites.file_corruption import Tally
    from eyechart.suites.folder import search

    corruptions, unready = layouts.corruptions_of(suite, names)
    parts = layouts.cells(settings, corruptions)
    for name in unready:
        print(f"Left out {name}, which needs a trained network.", file=sys.stderr)
    if settings.layout == layouts.ARRAYS:
        _write_arrays(pictures, parts, out)
        return
    found, left_out = search(pictures, out)
    layouts.check_classes(found)
    layouts.claim_folders(out, parts)
    _say_left_out(left_out, pictures, out)
    done = Tally()
    work = layouts.corrupt_folders(found, parts, out, done)
    _work(work, done, out.name, len(found) * len(parts), out)


def _write_arrays(pictures: list[Path], parts: "Sequence[Settings]", out: Path) -> None:
    from functools import partial

    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.suites.array_layout import load_stack, write_arrays

    if len(pictures) != 1:
        raise UsageError(
            f"--layout cifar-c takes one folder, list or .npy file, got {len(pictures)}."
        )
    try:
        with ProgressBars() as bars:
            stack = load_stack(pictures[0], parts[0].stimulus or "", partial(bars.begin, "images"))
            step = bars.begin(out.name, len(stack.images) * len(parts))
            written = write_arrays(stack, parts, out, step)
    except KeyboardInterrupt:
        raise Stop("Stopped: the same command goes on from there.", 130) from None
    for damaged in stack.images.damaged:
        print(f"Left out: {damaged.why}", file=sys.stderr)
    total = len({cell.corruption for cell in parts})
    already = f" ({total - written} already there)" if written < total else ""
    print(
        f"{written} array{'' if written == 1 else 's'} of {len(stack.images)} images at 5"
        f" severities written into {out}{already}."
    )


def _say_left_out(left_out: dict[Path, int], pictures: list[Path], out: Path) -> None:
    from eyechart.images.image_files import unread_notes

    for note in (note for path in pictures for note in unread_notes(path, out)):
        print(note, file=sys.stderr)
    for place, number in left_out.items():
        print(f"Left out {_count(number)} in {place}, which eyechart made.", file=sys.stderr)


def _parse(assignments: list[str]) -> dict[str, float]:
    """Return {name: value} from "name=value" texts."""
    parameters = {}
    for text in assignments:
        name, _, value = text.partition("=")
        try:
            parameters[name.strip()] = float(value)
        except ValueError:
            raise UsageError(f"--set takes NAME=NUMBER, got '{text}'.") from None
    return parameters


def _work(work: "Generator[FileOutcome]", done: "Tally", title: str, total: int, out: Path) -> None:
    from eyechart.cli.shared.progress import progress_bar

    written = kept = left_out = 0
    try:
        with progress_bar(title, total) as step, closing(work) as outcomes:
            for outcome in outcomes:
                written += outcome.state == "written"
                kept += outcome.state == "kept"
                left_out += outcome.state == "left out"
                step(1, outcome.why)
    except KeyboardInterrupt:
        raise Stop(
            f"Stopped: {done.count} of {_count(total)} are done;"
            " the same command goes on from there.",
            130,
        ) from None
    except UsageError as error:
        so_far = f"{_count(done.count)} in {out} kept"
        raise UsageError(f"{str(error).rstrip('.')}; {so_far}.") from None
    already = f" ({kept} already there)" if kept else ""
    print(f"{_count(written)} written into {out}{already}.")
    if left_out:
        raise Stop(f"{_count(left_out)} of {total} left out, for the reasons above.", 2)


def _count(number: int) -> str:
    return f"{number} picture" if number == 1 else f"{number} pictures"
