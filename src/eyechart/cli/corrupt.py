"""`eyechart corrupt`: pictures in, corrupted pictures out, with progress and resuming."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.paths import folder, folder_or_file
from eyechart.cli.stop import Stop
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.suites.folder import Job, Settings


def corrupt(
    pictures: Annotated[
        list[Path],
        typer.Argument(
            metavar="PICTURE...", parser=folder_or_file, help="Picture files, or folders of them."
        ),
    ],
    corruption: Annotated[
        str, typer.Option("--corruption", "-c", help="Its name: fog, vcr/frost, noc/rain, …")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="PATH", parser=folder, help="The folder for the results."
        ),
    ],
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
    format: Annotated[str, typer.Option(help="png or jpeg.")] = "png",
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
    """Corrupt pictures; folders keep their structure, and a run that was stopped goes on."""
    from eyechart.core.devices import find_device
    from eyechart.suites.folder import Settings, check_settings, claim, complete, plan, search

    settings = check_settings(
        Settings(
            corruption=corruption,
            severity=severity,
            parameters=_parse(assignments or []),
            variant=variant,
            seed=seed,
            format=format,
            jpeg_quality=jpeg_quality,
            device=str(find_device(device)),
            frost_textures=None if frost_textures is None else str(frost_textures),
        )
    )
    found, left_out = search(pictures, out)
    jobs = plan(found, out, settings.format)
    replacing = claim(out, settings, jobs, overwrite)
    for place, number in left_out.items():
        print(f"Left out {_count(number)} in {place}, which eyechart made.", file=sys.stderr)
    _work(jobs, settings, out, overwrite, replacing)
    # Not where pictures were left out: older ones may still stand in their places.
    if replacing:
        complete(out, settings)


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


def _work(
    jobs: "list[Job]", settings: "Settings", out: Path, overwrite: bool, replacing: bool
) -> None:
    from eyechart.cli.progress import progress_bar
    from eyechart.suites.work import corrupt_files

    written = kept = left_out = 0
    done: list[Job] = []
    try:
        with (
            progress_bar(settings.corruption, len(jobs)) as step,
            closing(corrupt_files(jobs, settings, overwrite, replacing, done)) as outcomes,
        ):
            for outcome in outcomes:
                written += outcome.what == "written"
                kept += outcome.what == "kept"
                left_out += outcome.what == "left out"
                step(outcome.why)
    except KeyboardInterrupt:
        raise Stop(
            f"Stopped: {len(done)} of {_count(len(jobs))} are done;"
            " the same command goes on from there.",
            130,
        ) from None
    except UsageError as error:
        so_far = f"{_count(len(done))} in {out} kept"
        raise UsageError(f"{str(error).rstrip('.')}; {so_far}.") from None
    already = f" ({kept} already there)" if kept else ""
    print(f"{_count(written)} written into {out}{already}.")
    if left_out:
        raise Stop(f"{_count(left_out)} of {len(jobs)} left out, for the reasons above.", 2)


def _count(number: int) -> str:
    return f"{number} picture" if number == 1 else f"{number} pictures"
