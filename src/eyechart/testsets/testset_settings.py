"""The options by which test sets are sampled, each declared once; see `Plan` for the rest.

Nothing slow is imported here: the command line is made from these.
"""

import os
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option, Seed
from eyechart.core.registry import one_of
from eyechart.labels.space_names import NATIVE, SPACES
from eyechart.visual_change.registry import DEFAULT_RULER, RULERS

if TYPE_CHECKING:
    from eyechart.images.imageset import ImageSet
    from eyechart.testsets.plan import Plan

SUITE, N_SAMPLES = "vcr", 50_000
"""The suite and the samples per corruption where nothing else is asked for."""

N_DRAWN = 2_000
"""Samples per corruption of `eyechart testset make`: enough to look at, in a minute."""

SAMPLINGS = PAPER, UNIFORM = "paper", "uniform"
"""How strengths are sampled: from the published domains, or so that Δv is uniform."""

LEAST = 20
"""Samples that a bin of visual change needs, to be covered and for a curve."""

Suite = Annotated[str, Option(help="A suite's name or YAML file.", group="Corruptions")]


def read_range(text: str) -> tuple[float, float]:
    """Return the two numbers of LOW:HIGH."""
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise UsageError(f"--delta-v must be LOW:HIGH, such as 0.2:0.6, got '{text}'.") from None


@dataclass(frozen=True, kw_only=True)
class TestsetSettings:
    """How samples are taken: what every command that samples a test set has in common."""

    __test__ = False  # no test, whatever pytest takes the name for

    seed: Seed = 0
    sampling: Annotated[
        str,
        Option(
            help=f"{PAPER} (published domains) or {UNIFORM} (in visual change).",
            group="Corruptions",
        ),
    ] = PAPER
    delta_v: Annotated[
        tuple[float, float],
        Option(
            help="The range to make Δv uniform over.",
            group="Corruptions",
            metavar="LOW:HIGH",
            typed=str,
            read=read_range,
            typed_default="0:1",
        ),
    ] = (0.0, 1.0)
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Only this corruption of the suite; repeatable.",
            group="Corruptions",
            flags=("--corruption",),
        ),
    ] = ()
    definition: Annotated[
        str,
        Option(
            help=f"The definition of visual change: {one_of(RULERS)}; only {DEFAULT_RULER} has"
            " humans to compare with.",
            group="Corruptions",
        ),
    ] = DEFAULT_RULER
    jpeg: Annotated[
        int | None,
        Option(
            help="Store every corrupted picture as JPEG and read it back; ImageNet-C's files are"
            " at 85.",
            group="Corruptions",
            metavar="QUALITY",
        ),
    ] = None
    balanced: Annotated[
        bool,
        Option(
            help="Draw classes equally often, or not.",
            group="Data",
            flags=("--balanced/--unbalanced",),
        ),
    ] = True
    pictures: Annotated[
        int | None,
        Option(help="Use so many pictures only, as many of every class.", group="Data"),
    ] = None


@dataclass(frozen=True)
class DrawSettings(TestsetSettings):
    """A test set that is drawn on its own, from which images, and at what size."""

    images: Annotated[
        "str | os.PathLike[str] | ImageSet | None",
        Option(
            help="Class folders, or a CSV or Parquet file; without it 20 demo photographs.",
            group="Data",
            python="Also an ImageSet.",
            metavar="[IMAGES]",
            path="folder or file",
            is_argument=True,
        ),
    ] = None
    suite: Suite = SUITE
    n: Annotated[
        int, Option(help="Rows per corruption.", group="Corruptions", typed_default=N_DRAWN)
    ] = N_SAMPLES
    _: KW_ONLY
    labels: Annotated[str, Option(help=f"{one_of(SPACES)}.", group="Data")] = NATIVE
    stimulus: Annotated[
        str,
        Option(help="224 or another side, WIDTHxHEIGHT (plain resize), or native.", group="Data"),
    ] = "224"
    device: Device = "cpu"

    @property
    def plan(self) -> "Plan":
        """What to sample; a UsageError is raised where that is not possible."""
        from eyechart.testsets.plan import Plan, names_of

        shared = {field.name: getattr(self, field.name) for field in fields(TestsetSettings)}
        shared["corruptions"] = names_of(self.corruptions)
        plan = Plan(self.suite, self.n, labels=self.labels, **shared)
        plan.check()
        return plan
