"""Settings of an evaluation, each declared once: name, type, default, help, group, checks.

`eyechart evaluate` and `ec.evaluate` are derived from them, so nothing slow is imported here.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self, TypeAlias

from eyechart.core.arguments import (
    FilePath,
    as_flag,
    as_list,
    as_path,
    as_text,
    as_within,
    digits,
)
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.registry import one_of, unknown_name
from eyechart.corruptions.suites.published import TestPreset
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.images.labels.spaces import ENTRY16, NATIVE, NO_LABELS
from eyechart.models.registries import DEFENSES
from eyechart.pipeline.fail_under import ScoreLimit, read_limits
from eyechart.predictions.compute_settings import ComputeSettings
from eyechart.scores.baseline_names import BASELINES
from eyechart.stats.curve_settings import CurveSettings
from eyechart.testsets.testset_settings import (
    LEVELS,
    N_SAMPLES,
    PARAMETERS,
    PILOT,
    SUITE,
    TestsetSettings,
    Window,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from eyechart.images.image_sources import ImageData
    from eyechart.images.imageset import ImageSet
    from eyechart.models.defenses import Defense
    from eyechart.models.label_map import LabelMap
    from eyechart.models.model import Model
    from eyechart.scores.scoring import Fit
    from eyechart.testsets.plan import Plan

    OneModel: TypeAlias = "str | nn.Module | Model | Callable[[Tensor], Tensor]"

DEMO_MODELS = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
DEMO_SAMPLES = 150
"""Number of samples per corruption of the demo."""

AUTO = "auto"
"""The value of --n for which the number of samples is chosen."""


def read_n(text: str) -> int | None:
    """Return the number of samples; None for "auto".

    Example:
        >>> read_n("auto"), read_n("300")
        (None, 300)
    """
    if text == AUTO:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--n must be a whole number or {AUTO}, got '{text}'.") from None


@dataclass(frozen=True, kw_only=True)
class LoadingSettings:
    """Options of every command that loads models."""

    download: Annotated[
        bool, Option(help="Download weights and hf: datasets that are missing.", group="Models")
    ] = False
    trust: Annotated[
        bool,
        Option(
            help="Also load files that can run code when loaded.", group="Models", is_advanced=True
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ModelCheckSettings:
    """Options of `check_model`."""

    expect: Annotated[
        float | None,
        Option(help="Expected top-1 accuracy of the models, such as 0.75.", group="Models"),
    ] = None
    n: Annotated[
        int, Option(help="Number of images on which other preprocessing is tried.", group="Data")
    ] = 500

    def check(self) -> None:
        """Raise a UsageError if a setting is invalid."""
        if self.n < 1:
            raise UsageError(f"n must be at least 1, got {self.n}.")
        if self.expect is not None and not 0 <= self.expect <= 1:
            raise UsageError(f"The expected top-1 must be in [0, 1], got {digits(self.expect)}.")


@dataclass(frozen=True)
class EvaluateSettings(
    TestsetSettings, CurveSettings, ComparisonSettings, LoadingSettings, ComputeSettings
):
    """All settings of an evaluation."""

    model: Annotated[
        "OneModel | Sequence[OneModel] | None",
        Option(
            help="timm:NAME, hf:REPO, onnx:FILE, module:attribute, a file or a card; see eyechart"
            " list models. EfficientNet-Lite0, 1 and 2 if omitted.",
            group="Models",
            python="Can also be a torch module, a function that takes images in 0…1, or a list of"
            " models.",
            metavar="[MODEL]...",
            cli_type=list[str],
            is_argument=True,
        ),
    ] = None
    images: Annotated[
        "FilePath | ImageSet | ImageData | None",
        Option(
            help="Class folders, a CSV or Parquet file with path and label, .tar or .npz files,"
            " hf:NAME:SPLIT, or files of ImageNet-C or CIFAR-10-C; 20 demo images if omitted.",
            group="Data",
            python="Also accepts an ImageSet, a datasets.Dataset, a torch Dataset of (image,"
            " label), an array of images (N, H, W, 3), or (images, labels).",
            metavar="PATH",
            path="folder or file",
        ),
    ] = None
    suite: Annotated[
        str | None,
        Option(
            help=f"Suite name or YAML file; {SUITE}, or the suite of corrupted --images, if"
            " omitted.",
            group="Corruptions",
        ),
    ] = None
    n: Annotated[
        int | None,
        Option(
            help=f"Samples per corruption, or {AUTO}: as many as needed, within --minutes.",
            group="Corruptions",
            python="None for auto.",
            metavar="NUMBER",
            cli_type=str,
            read=read_n,
            cli_default=AUTO,
        ),
    ] = None
    _: KW_ONLY
    minutes: Annotated[
        float,
        Option(help=f"Time limit of --n {AUTO} in minutes.", group="Corruptions", metavar="NUMBER"),
    ] = 10.0
    preset: TestPreset = None
    sampling: Annotated[
        str | None,
        Option(
            help=f"{PILOT} (uniform in expected visual change) or {PARAMETERS} (uniform in the"
            f" published domains); {PILOT} if omitted. Suites with published severities have"
            f" {LEVELS} only.",
            group="Corruptions",
            is_advanced=True,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Option(help="Print the plan only.", group="Output", python="Only for the command line."),
    ] = False
    out: Annotated[
        FilePath | None,
        Option(
            help="Run folder.",
            group="Output",
            python="An interrupted run resumes there; if omitted, predictions are not stored.",
            metavar="FOLDER",
            path="folder",
            cli_default=Path("eyechart-results"),
        ),
    ] = None
    labels: Annotated[
        str,
        Option(
            help=f"{NATIVE} (dataset classes), {ENTRY16} (16 human categories) or {NO_LABELS}.",
            group="Data",
            metavar="SPACE",
        ),
    ] = NATIVE
    testset: Annotated[
        FilePath | None,
        Option(
            help="Use this test set instead of drawing one.",
            group="Corruptions",
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    stimulus: Annotated[
        str,
        Option(
            help="224 or another size (resize, then center crop), uncropped (shorter side 256),"
            " 224x224 or another WIDTHxHEIGHT (resize only), native, or auto: native if all images"
            " have the same small size, as in CIFAR, otherwise 224.",
            group="Data",
            metavar="SIZE",
            is_advanced=True,
        ),
    ] = "auto"
    window: Window = None
    clean: Annotated[
        FilePath | None,
        Option(
            help="Clean images of corrupted --images, as class folders or a .npy file; if"
            " omitted, only error rates are computed.",
            group="Data",
            is_advanced=True,
            metavar="PATH",
            path="folder or file",
        ),
    ] = None
    baseline: Annotated[
        "OneModel | FilePath | None",
        Option(
            help=f"Baseline of CE: {one_of(BASELINES)} (built-in tables), a model, humans, none, or"
            " auto (the built-in table where it is valid).",
            group="Curves and statistics",
            cli_type=str,
        ),
    ] = "auto"
    label_maps: Annotated[
        "Sequence[FilePath | LabelMap]",
        Option(
            help="Classes of models without ImageNet's 1,000 outputs: background-first, or a file"
            " with a line per output; repeatable.",
            group="Models",
            metavar="FILE",
            is_advanced=True,
            flags=("--label-map",),
            cli_type=list[str],
        ),
    ] = ()
    defenses: Annotated[
        "Sequence[str | Defense]",
        Option(
            help=f"Defense applied before the models: {one_of(DEFENSES)}, such as clahe:clip=3;"
            " repeatable; applied in the given order, but not to a baseline.",
            group="Models",
            is_advanced=True,
            flags=("--defense",),
            metavar="NAME[:OPTIONS]",
            cli_type=list[str],
        ),
    ] = ()
    check: Annotated[
        bool,
        Option(
            help="After the run, regenerate and compare 1 % of the samples.",
            group="Output",
            python="Raises CheckFailed if they differ.",
        ),
    ] = False
    strict: Annotated[
        bool,
        Option(
            help="Stop if a model fails the self-test before the run, instead of writing a note.",
            group="Models",
            is_advanced=True,
        ),
    ] = False
    accept_labels: Annotated[
        bool,
        Option(
            help="Run even if accuracy on clean images says that labels do not match the outputs.",
            group="Data",
            is_advanced=True,
        ),
    ] = False
    fail_under: Annotated[
        Sequence[str] | Mapping[str, float | str],
        Option(
            help="Exit with status 1 unless the confidence bound of a mean score reaches a limit,"
            " such as r_a=0.5; r_a=0.5:point compares the score itself; repeatable.",
            group="Output",
            python="Raises CheckFailed instead of exiting. Also accepts a dictionary.",
            metavar="NAME=NUMBER",
            cli_type=list[str],
        ),
    ] = ()

    @property
    def is_n_fixed(self) -> bool:
        """Whether the number of samples is given, and not chosen for the machine."""
        return bool(self.n is not None or self.plan.is_at_levels or self.is_demo)

    @property
    def is_demo(self) -> bool:
        """Whether the demo images are used, because no others were given."""
        return self.images is None

    @property
    def models(self) -> "list[OneModel]":
        """Models to evaluate."""
        if self.model is None:
            return list(DEMO_MODELS)
        if isinstance(self.model, Sequence) and not isinstance(self.model, str):
            return list(self.model)
        return [self.model]

    @cached_property
    def plan(self) -> "Plan":
        """What to sample."""
        from eyechart.testsets.plan import Plan, names_of

        # A given test set has its own number of samples, and sampling.
        is_drawn = self.testset is None
        usual = DEMO_SAMPLES if self.is_demo and is_drawn else N_SAMPLES
        shared = {field.name: getattr(self, field.name) for field in fields(TestsetSettings)}
        shared["corruptions"] = names_of(self.corruptions)
        plan = Plan(
            SUITE if self.suite is None else self.suite,
            usual if self.n is None else self.n,
            labels=self.labels,
            **shared,
        )
        if self.sampling is None and is_drawn and plan.sampling != LEVELS:
            return replace(plan, sampling=PILOT)
        return plan

    def at_published_strengths(self) -> Self:
        """Return the settings with strengths sampled as published, if no sampling was given."""
        if self.sampling is not None:
            return self
        return replace(self, sampling=replace(self.plan, sampling=None).sampling)

    @cached_property
    def fit(self) -> "Fit":
        """How curves are fitted."""
        from eyechart.scores.scoring import Fit

        shared = {field.name: getattr(self, field.name) for field in fields(CurveSettings)}
        return Fit(**shared)

    def with_plan(self, plan: "Plan") -> Self:
        """Return the settings with their values replaced by the values of a plan."""
        return replace(self, **{field.name: getattr(plan, field.name) for field in fields(plan)})

    @property
    def score_limits(self) -> tuple[ScoreLimit, ...]:
        """Scores that must be reached."""
        return read_limits(self.fail_under)

    @cached_property
    def loaded_maps(self) -> "tuple[LabelMap, ...]":
        """Label maps, read from their files."""
        from eyechart.models.label_map import LabelMap, find_map

        return tuple(
            name
            if isinstance(name, LabelMap)
            else find_map(os.fspath(as_path(name, "Each of label_maps")))
            for name in as_list(self.label_maps, "label_maps")
        )

    @property
    def baseline_name(self) -> str:
        """Name of the baseline of CE; available once a baseline model is loaded."""
        if not isinstance(self.baseline, str):
            raise TypeError("the baseline is not loaded yet: see with_baseline")
        return self.baseline

    def checked(self) -> Self:
        """Return the settings; raise a UsageError if they are invalid or inconsistent."""
        from eyechart.humans.human_fit import check_rule
        from eyechart.images.labels.spaces import RULES

        if self.testset is not None:
            as_path(self.testset, "testset", "the path of a file")
        flags = ("balanced", "chance_correct", "download", "trust", "check", "strict")
        for name in (*flags, "accept_labels"):
            as_flag(getattr(self, name), name)
        # Values such as 1 or numpy.bool_ become bool, which results.json can store.
        settings = replace(
            self, balanced=bool(self.balanced), chance_correct=bool(self.chance_correct)
        )
        settings.plan.check()
        settings.fit.check()
        if self.testset is not None and self.max_images is not None:
            raise UsageError("A test set defines its images: omit the number of images.")
        if as_text(self.rule, "rule") not in RULES:
            raise unknown_name("rule", self.rule, RULES)
        if self.clean_responses is not None:
            check_rule(as_text(self.clean_responses, "clean_responses"))
        self.check_compute()
        as_within(self.minutes, "minutes", 0.1, 1e6)
        # Evaluated here so that invalid values raise before the run.
        _ = settings.human_names, settings.similar_names, settings.score_limits
        settings._check_n()
        settings._check_shard()
        return settings

    def _check_shard(self) -> None:
        """Raise a UsageError if this run cannot be split."""
        if self.shard is None:
            return
        if not (self.images is None or isinstance(self.images, str | os.PathLike)):
            raise UsageError("A run with --shard needs images in files, which every process reads.")

    def _check_n(self) -> None:
        """Raise a UsageError if there are too few samples for any curve."""
        plan, min_per_bin = self.plan, self.fit.min_per_bin
        # Published levels use all images, regardless of n.
        if plan.is_at_levels:
            return
        # A curve needs two usable bins.
        need = int(min_per_bin * 2)
        if self.testset is None and plan.n < need:
            raise UsageError(
                f"n = {plan.n} is too small for curves: two bins of {min_per_bin:g} samples"
                f" need at least {need}; give a larger n or a smaller min_per_bin."
            )
