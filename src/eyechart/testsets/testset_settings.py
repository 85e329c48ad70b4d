"""The sampling options of test sets, each declared once; `Plan` has the other settings.

The command line is built from these records, so nothing slow is imported here.
"""

import os
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Annotated

from eyechart.core.options import Device, Option, Seed
from eyechart.core.registry import one_of
from eyechart.corruptions.suites.published import TestPreset
from eyechart.images.labels.spaces import NATIVE, SPACES
from eyechart.visual_change.registry import DEFAULT_RULER, RULERS

if TYPE_CHECKING:
    from eyechart.images.image_sources import ImageData
    from eyechart.images.imageset import ImageSet
    from eyechart.testsets.plan import Plan

SUITE, N_SAMPLES = "vcr", 50_000
"""The default suite and the default number of samples per corruption."""

N_DRAWN = 2_000
"""Default number of samples per corruption of `eyechart testset make`; a run takes a minute."""

SAMPLINGS = LEVELS, PARAMETERS, PILOT = "levels", "parameters", "pilot"
"""How strengths are sampled: at published severities, uniformly in the published domains of the
parameters, or such that Δv is approximately uniform, by means of pilot samples.
Suites with published severities have the first one only; the others are for all other suites.
"""

MIN_PER_BIN = 20
"""Minimum number of samples for a bin of visual change to be covered and used in a curve."""

Suite = Annotated[str, Option(help="A suite's name or YAML file.", group="Corruptions")]


Window = Annotated[
    tuple[float, float] | None,
    Option(
        help="Values that become black and white in gray images of more than 8 bits.",
        group="Data",
        metavar="LOW HIGH",
        is_advanced=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class TestsetSettings:
    """How a test set is sampled: the options shared by all commands that sample a test set."""

    __test__ = False  # keeps pytest from collecting the class

    seed: Seed = 0
    sampling: Annotated[
        str | None,
        Option(
            help=f"How strengths are sampled: {PARAMETERS} (uniform in the published domains)"
            f" or {PILOT} (uniform in expected visual change); {PARAMETERS} if omitted. Suites with"
            f" published severities have {LEVELS} only.",
            group="Corruptions",
            is_advanced=True,
        ),
    ] = None
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Use only this corruption of the suite; repeatable.",
            group="Corruptions",
            flags=("--corruption",),
        ),
    ] = ()
    ruler: Annotated[
        str,
        Option(
            help=f"Ruler of visual change: {one_of(RULERS)}; the human reference needs"
            f" {DEFAULT_RULER}.",
            group="Corruptions",
            is_advanced=True,
        ),
    ] = DEFAULT_RULER
    jpeg: Annotated[
        int | None,
        Option(
            help="Compress corrupted images as JPEG at this quality (ImageNet-C: 85).",
            group="Corruptions",
            is_advanced=True,
            metavar="QUALITY",
        ),
    ] = None
    balanced: Annotated[
        bool,
        Option(
            help="Sample every class equally often, rather than every image.",
            group="Data",
            is_advanced=True,
            flags=("--balanced/--unbalanced",),
        ),
    ] = True
    max_images: Annotated[
        int | None,
        Option(help="Use at most this number of images, balanced over classes.", group="Data"),
    ] = None


@dataclass(frozen=True)
class SampleSettings(TestsetSettings):
    """Options of `sample_testset` and `eyechart testset make`: images, suite, and test set size."""

    images: Annotated[
        "str | os.PathLike[str] | ImageSet | ImageData | None",
        Option(
            help="Class folders, a CSV or Parquet file, or .tar or .npz files; 20 demo images if"
            " omitted.",
            group="Data",
            python="Also accepts an ImageSet, or any other source that `load_images` accepts.",
            metavar="PATH",
            path="folder or file",
        ),
    ] = None
    suite: Suite = SUITE
    n: Annotated[
        int,
        Option(help="Number of samples per corruption.", group="Corruptions", cli_default=N_DRAWN),
    ] = N_SAMPLES
    _: KW_ONLY
    labels: Annotated[str, Option(help=f"{one_of(SPACES)}.", group="Data")] = NATIVE
    preset: TestPreset = None
    stimulus: Annotated[
        str,
        Option(
            help="A size such as 224, WIDTHxHEIGHT (resize only), native, or auto (native if all"
            " images have the same small size, otherwise 224).",
            group="Data",
            metavar="SIZE",
        ),
    ] = "auto"
    window: Window = None
    device: Device = "cpu"

    @property
    def plan(self) -> "Plan":
        """The plan of these settings; a UsageError is raised if it is invalid."""
        from eyechart.testsets.plan import Plan, names_of

        shared = {field.name: getattr(self, field.name) for field in fields(TestsetSettings)}
        shared["corruptions"] = names_of(self.corruptions)
        plan = Plan(self.suite, self.n, labels=self.labels, **shared)
        plan.check()
        return plan
