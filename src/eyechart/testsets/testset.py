"""`draw` and `TestSet`: a test set is a manifest, not a folder of images."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eyechart.core.arguments import as_folder, as_path, as_text, as_texts, as_whole, brief
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.options import takes_fields_of
from eyechart.core.progress import Advance, no_advance
from eyechart.core.randomness import hash64
from eyechart.core.records import CheckedFields, Record
from eyechart.core.registry import unknown_name
from eyechart.core.storage.locks import lock_folder
from eyechart.core.storage.parts import Parts, read_header, read_parquet, write_parquet
from eyechart.core.storage.shards import Shard
from eyechart.core.version import versions
from eyechart.images.image_sources import SOURCE, demo_images
from eyechart.images.imageset import ImageSet, load_images, load_listed
from eyechart.testsets.coverage import SampleCoverage, coverage_of
from eyechart.testsets.manifest_rows import (
    SCHEMA,
    VERSION,
    Measured,
    read_samples,
    samples_table,
    with_raw,
)
from eyechart.testsets.pilot import count_pilots, measure_maps, with_strengths
from eyechart.testsets.plan import CLEAN, FINGERPRINT, Plan
from eyechart.testsets.reach_parts import measure_reach, samples_in
from eyechart.testsets.samples import Samples, clean_samples, is_uniform, plan_samples
from eyechart.testsets.stimuli import iterate_clean_images, samples_of, split_into_batches
from eyechart.testsets.testset_parts import remove_parts
from eyechart.testsets.testset_settings import MIN_PER_BIN, SampleSettings
from eyechart.testsets.uniform import Reach, find_targets, find_values
from eyechart.visual_change.registry import find_ruler

HEADER = "eyechart testset"
"""Metadata key of a Parquet file with a test set."""


class TestSetHeader(Record):
    """Everything that determines a test set besides its plan, as stored in its file."""

    __test__ = False  # keeps pytest from collecting the class

    stimulus: str
    """How images were resized and cropped."""
    images: str
    """Digest of all images that the test set was sampled from."""
    n_images: int | None = None
    """Number of images that the test set was sampled from."""
    damaged: tuple[str, ...]
    """Names of the images that were left out."""
    ruler_version: int = 1
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
        return coverage_of(self.table, as_whole(min_per_bin, "min_per_bin", 0, 10**9))

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
        parts = []
        for name in maps[0]:
            values = [parameters[name] for parameters in maps]
            parts.append(f"{name} {min(values):.4g} to {max(values):.4g}")
        return ", ".join(parts)

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
            raise UsageError(f"path must be the path of a file, got {brief(str(path))}.")
        as_folder(path.parent, "The folder of path").mkdir(parents=True, exist_ok=True)
        header = {"schema": VERSION, **self.header.model_dump(mode="json")}
        stored = {HEADER: json.dumps({**header, "plan": self.plan.settings()})}
        write_parquet(self.table.replace_schema_metadata(stored), Path(path))

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
    for name in ("corruptions", "delta_v"):
        values[name] = tuple(values[name])
    plan = Plan(**values)
    # A changed suite would regenerate images that differ from the measured ones.
    if plan.settings()[FINGERPRINT] != settings[FINGERPRINT]:
        raise UsageError(f"{where} was drawn from a different version of its suite: draw it again.")
    return plan


@takes_fields_of(SampleSettings)
def sample_testset(settings: SampleSettings) -> TestSet:
    """Sample a test set with n samples per corruption and measure their visual change.

    Corruptions with published levels (ImageNet-C) are applied to every image at each level, unless
    sampling is "uniform".

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
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        return make_testset(_images_of(settings), plan, where, Path(folder), no_advance)


def _images_of(settings: SampleSettings) -> ImageSet:
    if isinstance(settings.images, ImageSet):
        return settings.images
    if settings.images is None:
        return load_listed(demo_images(), SOURCE, settings.stimulus)
    return load_images(settings.images, settings.stimulus, window=settings.window)


def make_testset(
    images: ImageSet, plan: Plan, device: torch.device, folder: Path, step: Advance
) -> TestSet:
    """Sample and measure all rows; rows in `folder` from an interrupted run are kept.

    `step` is called for every sample that is measured. With sampling "uniform" it is also
    called for every candidate and for every strength that is found.
    """
    with lock_folder(folder):
        measured = measure_testset(images, plan, device, folder, step)
        assert measured is not None, "without shards nothing is left to others"
        return join_parts(folder, measured, plan, header_of(images, plan))


def keep_testset(
    images: ImageSet, plan: Plan, device: torch.device, folder: Path, target: Path, *, step: Advance
) -> TestSet:
    """Make a test set with `make_testset`, write it to `target`, and remove its part files.

    Call this only while holding `lock_file(target)`: another process may be making the same
    test set.
    """
    testset = make_testset(images, plan, device, folder, step)
    testset.save(target)
    # Only once the manifest is on disk: a run that is killed earlier resumes from its parts.
    remove_parts(folder, testset.table["corruption"].unique().to_pylist())
    return testset


def measure_testset(
    images: ImageSet,
    plan: Plan,
    device: torch.device,
    folder: Path,
    step: Advance,
    shard: Shard | None = None,
) -> dict[str, int] | None:
    """Measure all samples, or those of a shard's images, that have no row in `folder` yet.

    Returns:
        The number of these samples of each corruption; None if the strengths of a shard cannot be
        found yet, because other shards have not measured their candidates.
    """
    groups = plan_samples(images, plan)
    # Finished rows are kept in part files, from which an interrupted run resumes. The shards write
    # into the same folder, in separate ranges of part numbers.
    writer = 0 if shard is None else shard.number
    parts = Parts(folder, [samples.name for samples in groups], writer)
    for note in parts.notes():
        step(0, note)
    groups = with_strengths(images, groups, plan, measure_maps(images, plan, device, step))
    pools = [samples for samples in groups if is_uniform(samples.entry, plan)]
    delta_v = measure_reach(images, pools, plan, device, folder, step=step, shard=shard)
    if delta_v is None:
        return None
    reach = {pool.name: find_targets(images, pool, delta_v[pool.name], plan) for pool in pools}
    first = {pool.name: pool.row[0] for pool in pools}
    groups = [_used(samples, reach.get(samples.name)) for samples in groups]
    if shard is not None:
        groups = [samples_in(shard, images, samples) for samples in groups]
    done = parts.done()
    pending = [samples.take(np.flatnonzero(~np.isin(samples.row, done))) for samples in groups]
    step(sum(map(len, groups)) - sum(map(len, pending)), "")
    left = [samples for samples in pending if len(samples)]
    for clean_images in iterate_clean_images(images, left, plan, device) if left else ():
        for samples, _ in samples_of(left, clean_images.places):
            if samples.name in reach:
                # Rows of a pool are numbered consecutively, so the offset from its first row is the
                # position.
                part_reach = reach[samples.name].take(samples.row - first[samples.name])
                samples = find_values(images, clean_images, samples, part_reach, plan)
                step(len(samples), "")
            for part in split_into_batches(samples, clean_images):
                corrupted = clean_images.make(part)
                measured = Measured(
                    corrupted.delta_v.cpu().numpy(),
                    corrupted.pixels.cpu().numpy(),
                    corrupted.scales,
                )
                parts.write(part.name, samples_table(images, plan, part, measured))
                step(len(part), "")
    return {samples.name: len(samples) for samples in groups}


def join_parts(folder: Path, names: Iterable[str], plan: Plan, header: TestSetHeader) -> TestSet:
    """Return the test set of all rows in `folder`; corruptions are in the order of `names`."""
    names = list(names)
    parts = Parts(folder, names)
    parts.merge()
    tables = [parts.read(name) for name in names]
    table = pa.concat_tables(tables).cast(SCHEMA)
    return TestSet(with_raw(table, find_ruler(plan.ruler)), plan, header)


def _used(samples: Samples, reach: Reach | None) -> Samples:
    """Return the samples of a pool that have a target, or all samples if there is no pool."""
    if reach is None:
        return samples
    return samples.take(np.flatnonzero(~np.isnan(reach.target)))


def header_of(images: ImageSet, plan: Plan) -> TestSetHeader:
    """Return everything that determines a test set besides its plan."""
    return TestSetHeader(
        stimulus=images.stimulus.name,
        images=images.digest,
        n_images=len(images),
        damaged=tuple(image.name for image in images.damaged),
        ruler_version=find_ruler(plan.ruler).version,
        versions=versions(),
    )


def count_steps(images: ImageSet, plan: Plan) -> int:
    """Return approximately how many steps `make_testset` will report."""
    total = 0
    for samples in plan_samples(images, plan):
        total += len(samples)
        if is_uniform(samples.entry, plan):
            # Candidates are counted above; n of them get a strength, and n are measured with it.
            total += 2 * plan.n
    return total + count_pilots(images, plan)
