"""`draw` and `TestSet`: a test set is a manifest, not a folder of images."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eyechart.core.arguments import as_folder, as_int, as_path, as_text, as_texts, short_repr
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.options import takes_fields_of
from eyechart.core.progress import Advance, no_advance
from eyechart.core.randomness import hash64
from eyechart.core.records import CheckedFields, Record
from eyechart.core.registry import unknown_name
from eyechart.core.storage.locks import lock_folder
from eyechart.core.storage.parts import PartFiles, read_header, read_parquet, write_parquet
from eyechart.core.storage.run_folder import check_same, write_settings
from eyechart.core.version import versions
from eyechart.images.image_sources import SOURCE, demo_images
from eyechart.images.imageset import ImageSet, load_images, load_listed
from eyechart.testsets.coverage import SampleCoverage, coverage_of
from eyechart.testsets.manifest_rows import (
    SCHEMA,
    VERSION,
    read_samples,
    samples_table,
    with_raw,
)
from eyechart.testsets.pilot import count_pilots, measure_maps, with_strengths
from eyechart.testsets.plan import CLEAN, FINGERPRINT, Plan
from eyechart.testsets.samples import Samples, clean_samples, plan_samples
from eyechart.testsets.stimuli import corrupt_samples
from eyechart.testsets.testset_settings import MIN_PER_BIN, SampleSettings
from eyechart.visual_change.registry import find_ruler

HEADER = "eyechart testset"
"""Metadata key of a Parquet file with a test set."""

PLAN = "plan.json"
"""File that states which plan the part files of a test set belong to."""


class TestSetHeader(Record):
    """Everything that determines a test set besides its plan, as stored in its file."""

    __test__ = False  # keeps pytest from collecting the class

    stimulus: str
    """How images were resized and cropped."""
    images: str
    """Digest of all images that the test set was sampled from."""
    n_images: int
    """Number of images that the test set was sampled from."""
    damaged: tuple[str, ...]
    """Names of the images that were left out."""
    ruler_version: int
    """Version of the ruler that measured visual change; values from different versions differ."""
    versions: dict[str, str]
    """Versions of eyechart and of the packages that its results depend on."""


@dataclass(frozen=True, eq=False, repr=False)
class TestSet(CheckedFields):
    """A reproducible set of corrupted images with their visual change.

    The images are not stored: each row of the table suffices to regenerate its image.

    Attributes:
        table: A pyarrow table with one row per sample and the columns of `SCHEMA`, and the ruler's
            raw value as `raw` if it is not Δv itself.
        plan: How the samples were drawn.
        header: Everything else that determines the test set.

    Example:
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (Path(folder) / "cat").mkdir()
        ...     noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        ...     Image.fromarray(noise).save(Path(folder) / "cat" / "0.png")
        ...     testset = sample_testset(folder, n=3, corruptions=["gaussian_noise"],
        ...     stimulus="64")
        >>> testset.corruptions, testset.count("vcr/gaussian_noise")
        (['vcr/gaussian_noise'], 3)
        >>> len(testset)  # with the clean image
        4
    """

    __test__ = False  # keeps pytest from collecting the class

    table: pa.Table
    plan: Plan
    header: TestSetHeader

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return f"<TestSet of {len(self)} rows, {len(self.corruptions)} corruptions>"

    @property
    def corruptions(self) -> list[str]:
        """The names of the corruptions, in the suite's order."""
        return [name for name in self.table["corruption"].unique().to_pylist() if name != CLEAN]

    def coverage(self, min_per_bin: int = MIN_PER_BIN) -> list[SampleCoverage]:
        """Return the coverage of each corruption, counted in the two published ways.

        `min_per_bin` is the minimum number of samples for a bin to count as covered.
        """
        return coverage_of(self.table, as_int(min_per_bin, "min_per_bin", 0, 10**9))

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that identify the samples: images, corruptions and strengths."""
        # Δv follows from the image and the pixels, so it need not be part of the digest.
        columns = ("row", "digest", "corruption", "draw", "seed", "pixels")
        return f"{hash64(*(str(self.table[name].to_pylist()) for name in columns)):016x}"

    def count(self, corruption: str) -> int:
        """Return the number of samples of a corruption."""
        return int(self._of(corruption).num_rows)

    def ranges(self, corruption: str) -> str:
        """Return the ranges of a corruption's parameters as text."""
        maps = [dict(parameters) for parameters in self._of(corruption)["parameters"].to_pylist()]
        by_name = {name: [parameters[name] for parameters in maps] for name in maps[0]}
        return ", ".join(
            f"{name} {min(values):.4g} to {max(values):.4g}" for name, values in by_name.items()
        )

    def only(self, corruptions: Sequence[str]) -> "TestSet":
        """Return the samples of these corruptions, or the whole test set if none are given."""
        corruptions = as_texts(corruptions, "corruptions")
        if not corruptions:
            return self
        known = [*self.corruptions, CLEAN]
        # Short names are accepted for suites whose names have a prefix.
        names = [name if name in known else f"{self.plan.suite}/{name}" for name in corruptions]
        for asked, name in zip(corruptions, names, strict=True):
            if name not in known:
                raise unknown_name("corruption of the test set", asked, known)
        rows = self.table.filter(pc.is_in(self.table["corruption"], pa.array(names)))
        return replace(self, table=rows)

    def _of(self, corruption: str) -> pa.Table:
        name = as_text(corruption, "corruption")
        return self.table.filter(pc.equal(self.table["corruption"], name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest as a Parquet file; missing folders are created."""
        path = Path(as_path(path, "path", "the path of a file"))
        if not path.name:
            raise UsageError(f"path must be the path of a file, got {short_repr(str(path))}.")
        as_folder(path.parent, "The folder of path").mkdir(parents=True, exist_ok=True)
        header = {"schema": VERSION, **self.header.model_dump(mode="json")}
        stored = {HEADER: json.dumps({**header, "plan": self.plan.settings()})}
        write_parquet(self.table.replace_schema_metadata(stored), path)

    def samples(self, images: ImageSet) -> list[Samples]:
        """Return the samples; `images` must be the images they were drawn from.

        Raises:
            UsageError: If these are different images, or were loaded with a different stimulus, or
                the ruler has changed since the test set was drawn.
        """
        ruler = find_ruler(self.plan.ruler)
        if ruler.version != self.header.ruler_version:
            raise UsageError(
                f"The test set was measured by version {self.header.ruler_version} of the ruler"
                f" {ruler.name}, but this version of eyechart has version {ruler.version}: draw a"
                " new test set."
            )
        if images.stimulus.name != self.header.stimulus:
            raise UsageError(
                f"The test set was drawn for stimulus {self.header.stimulus}, but the images were"
                f" loaded as {images.stimulus.name}."
            )
        groups = read_samples(self.table, images, self.plan.entries())
        if groups[0].entry is None:
            return groups
        # A subset may lack the clean images, which every sample is compared with.
        used = np.unique(np.concatenate([samples.image for samples in groups]))
        first = max(int(samples.row.max()) for samples in groups) + 1
        return [clean_samples(used, first), *groups]


def read_testset(path: str | os.PathLike[str]) -> TestSet:
    """Read a test set that `TestSet.save` wrote.

    Args:
        path: The Parquet file.

    Returns:
        The test set.

    Raises:
        UsageError: If the file is not a test set, or its suite has changed since it was saved.

    Example:
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (Path(folder) / "cat").mkdir()
        ...     noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        ...     Image.fromarray(noise).save(Path(folder) / "cat" / "0.png")
        ...     testset = sample_testset(folder, n=2, corruptions=["gaussian_noise"],
        ...     stimulus="64")
        ...     testset.save(Path(folder) / "testset.parquet")
        ...     again = read_testset(Path(folder) / "testset.parquet")
        >>> again.digest == testset.digest
        True
    """
    as_path(path, "A test set", "the path of a file")
    where = Path(path)
    stored = read_header(where).get(HEADER)
    if stored is None:
        raise UsageError(f"{where} is not a test set: create one with eyechart testset make.")
    try:
        values = json.loads(stored)
        schema, settings = values.pop("schema"), values.pop("plan")
        if schema != VERSION:
            raise UsageError(
                f"{where} has schema {schema}, but this version of eyechart reads {VERSION}:"
                " draw it again."
            )
        plan = plan_from(settings, where)
        header = TestSetHeader.from_plain(values, str(where))
    except UsageError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{where} is a damaged test set ({error}): draw it again.") from None
    return TestSet(read_parquet(where), plan, header)


def plan_from(settings: Mapping[str, Any], where: Path) -> Plan:
    """Return the plan whose settings a file contains; `where` is the file.

    Raises:
        UsageError: If the suite has changed since the file was written.
    """
    values = {name: value for name, value in settings.items() if name != FINGERPRINT}
    values["corruptions"] = tuple(values["corruptions"])
    plan = Plan(**values)
    # A changed suite would regenerate images that differ from the measured ones.
    if plan.settings()[FINGERPRINT] != settings[FINGERPRINT]:
        raise UsageError(f"{where} was drawn from a different version of its suite: draw it again.")
    return plan


@takes_fields_of(SampleSettings)
def sample_testset(settings: SampleSettings) -> TestSet:
    """Sample a test set with n samples per corruption and measure their visual change.

    Corruptions with published levels (ImageNet-C) are applied to every image at each level.

    Returns:
        The test set, with one more row for every clean image that is used.

    Raises:
        UsageError: If a setting is invalid or the images cannot be read.

    Example:
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (Path(folder) / "cat").mkdir()
        ...     noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        ...     Image.fromarray(noise).save(Path(folder) / "cat" / "0.png")
        ...     testset = sample_testset(folder, n=2, corruptions=["gaussian_noise"],
        ...     stimulus="64")
        >>> testset
        <TestSet of 3 rows, 1 corruptions>
    """
    plan, where = settings.plan, find_device(settings.device)
    if isinstance(settings.images, ImageSet):
        images = settings.images
    elif settings.images is None:
        images = load_listed(demo_images(), SOURCE, settings.stimulus)
    else:
        images = load_images(settings.images, settings.stimulus, window=settings.window)
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        return make_testset(images, plan, where, Path(folder), no_advance)


def make_testset(
    images: ImageSet, plan: Plan, device: torch.device, folder: Path, step: Advance
) -> TestSet:
    """Sample and measure all rows; rows in `folder` from an interrupted run are kept.

    `step` is called for every sample that is measured.
    """
    with lock_folder(folder):
        groups = plan_samples(images, plan)
        names = [samples.name for samples in groups]
        # Finished rows are kept in part files, from which an interrupted run resumes.
        parts = PartFiles(folder, names)
        for note in parts.notes():
            step(0, note)
        groups = with_strengths(images, groups, plan, measure_maps(images, plan, device, step))
        done = parts.done()
        pending = [
            samples.select(np.flatnonzero(~np.isin(samples.row, done))) for samples in groups
        ]
        step(sum(map(len, groups)) - sum(map(len, pending)), "")
        for samples, _, corrupted in corrupt_samples(images, pending, plan, device):
            rows = samples_table(
                images,
                plan,
                samples,
                corrupted.delta_v.cpu().numpy(),
                corrupted.pixels.cpu().numpy(),
                corrupted.scales,
            )
            parts.write(samples.name, rows)
            step(len(samples), "")
        parts.merge()
        table = pa.concat_tables([parts.read(name) for name in names]).cast(SCHEMA)
    header = TestSetHeader(
        stimulus=images.stimulus.name,
        images=images.digest,
        n_images=len(images),
        damaged=tuple(image.name for image in images.damaged),
        ruler_version=find_ruler(plan.ruler).version,
        versions=versions(),
    )
    return TestSet(with_raw(table, find_ruler(plan.ruler)), plan, header)


def count_steps(images: ImageSet, plan: Plan) -> int:
    """Return how many steps `make_testset` reports: one for each sample, and for each pilot."""
    return sum(map(len, plan_samples(images, plan))) + count_pilots(images, plan)


def open_parts(out: Path, images: ImageSet, plan: Plan) -> Path:
    """Return the folder next to `out` for part files; raise an error if it has a different plan."""
    # not `with_name`, which raises for "."
    folder = out.parent / f"{out.name}.parts"
    record = folder / PLAN
    settings = {
        **plan.settings(),
        "stimulus": images.stimulus.name,
        "images": images.fingerprint,
        "ruler_version": find_ruler(plan.ruler).version,
    }
    try:
        folder.mkdir(exist_ok=True)
        # Never write into a folder that contains files of the user.
        if not record.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} contains other files: move this folder elsewhere.")
        check_same(record, settings, "an unfinished test set")
        write_settings(record, settings)
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror or error}.") from None
    return folder


def remove_parts(folder: Path, names: Sequence[str] = ()) -> None:
    """Remove the part files with these names and the plan's file; all other files are kept."""
    parts = PartFiles(folder, names)
    for name in names:
        parts.drop(name)
    (folder / PLAN).unlink(missing_ok=True)
    with suppress(OSError):  # the folder contains other files
        folder.rmdir()
