"""`eyechart corrupt`: write corrupted copies of images, with a progress bar; resumable.

The command applies one corruption at one strength, or writes a whole benchmark in a published
layout.
"""

import sys
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.progress import ProgressBars, progress_bar
from eyechart.cli.shared.stop import USAGE, Stop, on_interrupt
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option, ShardOption
from eyechart.core.phrases import count_of
from eyechart.core.registry import one_of, unknown_name
from eyechart.core.storage.shards import SHARDS, jobs_of, remove_shard_records
from eyechart.corruptions.suites.published import PUBLISHED, WITH_LEVELS

if TYPE_CHECKING:
    from eyechart.corruptions.suites.file_corruption import FileOutcome, Tally
    from eyechart.corruptions.suites.folder import Settings

NO_FILES = "to --layout cifar-c, which stores the pixels as arrays"
LAYOUT_INSTEAD = {
    "--severity": "with --layout: all five severities are written",
    "--set": "with --layout: the published strengths are written",
    "--variant": "with --layout: the published corruptions are written",
    "--overwrite": "with --layout: delete the files to regenerate them",
    "--format": NO_FILES,
    "--jpeg-quality": NO_FILES,
}
"""Options that --layout rejects, with the reason; the last two only for arrays."""


@dataclass(frozen=True, kw_only=True)
class CorruptSettings:
    """Settings of `eyechart corrupt`: images, corruption and output format."""

    images: Annotated[
        tuple[Path, ...],
        Option(
            help="Image files or folders.",
            group="Data",
            metavar="IMAGE...",
            path="folder or file",
            is_argument=True,
        ),
    ]
    stimulus: Annotated[
        str | None,
        Option(
            help="Resize images first: a side in px such as 224, WIDTHxHEIGHT, or native (original"
            " size); default: native, or 224 with --layout imagenet-c.",
            group="Data",
        ),
    ] = None
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Corruption, such as fog, vcr/frost or noc/rain; repeatable with --layout.",
            group="Corruptions",
            flags=("--corruption", "-c"),
        ),
    ] = ()
    severity: Annotated[
        float | None,
        Option(
            help="Severity in [0, 5]; 0 is clean.",
            group="Corruptions",
            flags=("--severity", "-s"),
        ),
    ] = None
    assignments: Annotated[
        tuple[str, ...],
        Option(
            help="Set a parameter of the corruption; repeatable.",
            group="Corruptions",
            flags=("--set",),
            metavar="NAME=VALUE",
        ),
    ] = ()
    variant: Annotated[
        str | None,
        Option(help="Variant of the corruption, such as paper.", group="Corruptions"),
    ] = None
    suite: Annotated[
        str | None,
        Option(
            help="Suite of the corruptions, such as vcr. With --layout, all its corruptions are"
            f" written unless --corruption is set: {one_of(WITH_LEVELS)}.",
            group="Corruptions",
        ),
    ] = None
    frost_textures: Annotated[
        Path | None,
        Option(help="Folder of textures for the corruption frost.", group="Corruptions"),
    ] = None
    seed: Annotated[int, Option(help="Random seed.", group="Compute")] = 0
    device: Device = "cpu"
    shard: ShardOption = None
    out: Annotated[
        Path,
        Option(
            help="Output folder.",
            group="Output",
            flags=("--out", "-o"),
            metavar="FOLDER",
            path="folder",
        ),
    ]
    layout: Annotated[
        str | None,
        Option(
            help="Write all five severities in a published layout: imagenet-c"
            " (CORRUPTION/SEVERITY/CLASS/FILE) or cifar-c (CORRUPTION.npy).",
            group="Output",
        ),
    ] = None
    format: Annotated[
        str | None,
        Option(
            help="File format: png or jpeg; default: png, or jpeg with --layout imagenet-c.",
            group="Output",
        ),
    ] = None
    jpeg_quality: Annotated[
        int | None,
        Option(
            help="JPEG quality, 1 to 100; 85 (as in ImageNet-C) if omitted.",
            group="Output",
        ),
    ] = None
    overwrite: Annotated[
        bool, Option(help="Overwrite images made with different settings.", group="Output")
    ] = False

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters that were set with --set, by name."""
        parameters = {}
        for text in self.assignments:
            name, _, value = text.partition("=")
            try:
                parameters[name.strip()] = float(value)
            except ValueError:
                raise UsageError(f"--set takes NAME=NUMBER, got '{text}'.") from None
        return parameters

    def check_layout(self) -> None:
        """Raise a UsageError unless all options given are valid with the published layout."""
        from eyechart.corruptions.suites.file_corruption import ARRAYS, check_layout

        check_layout(self.layout)
        is_array = self.layout == ARRAYS
        rejected = {
            "--severity": self.severity is not None,
            "--set": bool(self.assignments),
            "--variant": self.variant is not None,
            "--overwrite": self.overwrite,
            "--format": is_array and self.format not in (None, "png"),
            "--jpeg-quality": is_array and self.jpeg_quality is not None,
        }
        for option, is_given in rejected.items():
            if is_given:
                raise UsageError(f"{option} does not apply {LAYOUT_INSTEAD[option]}.")


@examples(
    "eyechart corrupt photos --corruption fog --severity 3 --out foggy",
    "eyechart corrupt cat.png -c gaussian_noise --set sigma=0.2 -o noisy",
)
@derived_options
def corrupt(options: CorruptSettings) -> None:
    """Corrupt image files or folders of images.

    With --layout, write a whole benchmark that loaders for ImageNet-C or CIFAR-10-C can read.
    """
    from eyechart.core.devices import find_device
    from eyechart.corruptions.suites.folder import Settings

    textures = options.frost_textures
    settings = Settings(
        # set below: one corruption, or each of a benchmark
        corruption="",
        severity=options.severity,
        parameters=options.parameters,
        variant=options.variant,
        seed=options.seed,
        # ImageNet-C was published as JPEG files
        format=options.format or ("jpeg" if options.layout == "imagenet-c" else "png"),
        jpeg_quality=options.jpeg_quality,
        device=str(find_device(options.device)),
        frost_textures=None if textures is None else str(textures),
        stimulus=options.stimulus,
        layout=options.layout,
    )
    if options.layout is not None:
        options.check_layout()
        _corrupt_layout(options, settings)
    else:
        _corrupt_one(options, settings)


def _corrupt_one(options: CorruptSettings, settings: "Settings") -> None:
    from eyechart.corruptions.suites.file_corruption import Tally, corrupt_files
    from eyechart.corruptions.suites.folder import (
        check_settings,
        claim,
        complete,
        jobs_of_shard,
        plan,
        search,
    )

    names, out, overwrite = options.corruptions, options.out, options.overwrite
    if len(names) != 1:
        raise UsageError(
            f"Give one --corruption, got {len(names)}; to write several, add --layout imagenet-c."
        )
    name = names[0] if options.suite is None else _in_suite(options.suite, names)
    settings = check_settings(replace(settings, corruption=name))
    images, left_out = search(options.images, out)
    jobs = plan(images, out, settings.format)
    replacing = claim(out, settings, jobs, overwrite)
    _say_left_out(left_out)
    done, todo = Tally(), jobs_of_shard(options.shard, jobs)
    work = corrupt_files(todo, settings, overwrite=overwrite, replacing=replacing, done=done)
    skipped = _work(work, done, settings.corruption, len(todo), out)
    if replacing and not skipped:
        complete(out, settings, jobs)
    _finish(options, [settings], [str(job.target.relative_to(out)) for job in jobs], done.count)
    _report_skipped(skipped, len(todo))


def _in_suite(suite: str, names: Sequence[str]) -> str:
    """Return the full name of a suite's corruption, with the suite's variant if it has one."""
    from eyechart.corruptions.suites.suite import AT, split_variant
    from eyechart.corruptions.suites.suite_file import entries_in

    if split_variant(suite)[0] not in PUBLISHED:
        # the record of a folder has the name of a corruption, not the file that declares it
        raise unknown_name("suite", suite, PUBLISHED)
    (entry,) = entries_in(suite, names)
    return entry.name if entry.variant is None else f"{entry.name}{AT}{entry.variant}"


def _corrupt_layout(options: CorruptSettings, settings: "Settings") -> None:
    from eyechart.corruptions.suites import file_corruption
    from eyechart.corruptions.suites.folder import images_of_shard, search

    out = options.out
    corruptions, unready = file_corruption.corruptions_of(options.suite, options.corruptions)
    parts = file_corruption.cells(settings, corruptions)
    for name in unready:
        print(f"Skipped {name}, which needs a trained network.", file=sys.stderr)
    if settings.layout == file_corruption.ARRAYS:
        _write_arrays(options, parts)
        return
    images, left_out = search(options.images, out)
    file_corruption.check_classes(images)
    file_corruption.claim_folders(out, parts)
    _say_left_out(left_out)
    done, todo = file_corruption.Tally(), images_of_shard(options.shard, images)
    work = file_corruption.corrupt_folders(todo, parts, out, done)
    total = len(todo) * len(parts)
    skipped = _work(work, done, out.name, total, out)
    _finish(options, parts, [str(image.relative) for image in images], done.count)
    _report_skipped(skipped, total)


def _finish(
    options: CorruptSettings, cells: "Sequence[Settings]", names: Sequence[str], n_written: int
) -> None:
    """Record that a shard is finished, or remove such records after a run without shards."""
    from eyechart.corruptions.suites.folder import record_shard

    shard, out = options.shard, options.out
    if shard is None:
        remove_shard_records(out / SHARDS)
        return
    record_shard(out, shard, cells, names, n_written)
    print(
        f"Shard {shard} is done; when all {shard.count} shards are done, run: eyechart merge {out}"
    )


def _write_arrays(options: CorruptSettings, parts: "Sequence[Settings]") -> None:
    from eyechart.corruptions.suites.array_layout import load_stack, write_arrays

    sources, out, shard = options.images, options.out, options.shard
    if len(sources) != 1:
        raise UsageError(
            f"--layout cifar-c takes one folder, image list or .npy file, got {len(sources)}."
        )
    with on_interrupt("Stopped: run the same command again to resume."), ProgressBars() as bars:
        images = load_stack(sources[0], parts[0].stimulus or "", partial(bars.begin, "images"))
        n_cells = len(parts if shard is None else jobs_of(parts, shard))
        step = bars.begin(out.name, len(images) * n_cells)
        written = write_arrays(images, parts, out, step, shard)
    for damaged in images.damaged:
        print(f"Skipped: {damaged.why}", file=sys.stderr)
    if shard is None:
        total, severities = len({cell.corruption for cell in parts}), "5 severities"
    else:
        total, severities = n_cells, "one severity"
    already = f" ({total - written} already exist)" if written < total else ""
    print(
        f"{count_of(written, 'array')} of {count_of(len(images), 'image')} at"
        f" {severities} written into {out}{already}."
    )
    _finish(options, parts, [image.name for image in images.listed], n_cells)


def _say_left_out(left_out: dict[Path, int]) -> None:
    for folder, number in left_out.items():
        images = count_of(number, "image")
        print(f"Skipped {images} that eyechart wrote into {folder}.", file=sys.stderr)


def _work(work: "Generator[FileOutcome]", done: "Tally", title: str, total: int, out: Path) -> int:
    """Write the images; return the number of images that were skipped."""
    written = kept = left_out = 0
    try:
        # closed here, so that the generator's threads end before anything else is printed
        with progress_bar(title, total) as step, closing(work) as outcomes:
            for outcome in outcomes:
                written += outcome.state == "written"
                kept += outcome.state == "kept"
                left_out += outcome.state == "left out"
                step(1, outcome.why)
    except KeyboardInterrupt:
        raise Stop(
            f"Stopped: {done.count} of {count_of(total, 'image')} are done;"
            " run the same command again to resume."
        ) from None
    except UsageError as error:
        so_far = f"{count_of(done.count, 'image')} in {out} kept"
        raise UsageError(f"{str(error).rstrip('.')}; {so_far}.") from None
    already = f" ({kept} already exist)" if kept else ""
    print(f"{count_of(written, 'image')} written into {out}{already}.")
    return left_out


def _report_skipped(skipped: int, total: int) -> None:
    if skipped:
        images = count_of(skipped, "image")
        raise Stop(f"{images} of {total} skipped, for the reasons above.", USAGE)
