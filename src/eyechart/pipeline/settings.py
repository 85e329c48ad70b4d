"""The settings of an evaluation, each declared once: name, type, default, help, group, checks.

`eyechart evaluate` and `ec.evaluate` are derived from them; nothing slow is imported here.
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
    as_texts,
    as_whole,
)
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.registry import one_of, unknown_name
from eyechart.curves.curve_settings import CurveSettings
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.labels.space_names import ENTRY16, NATIVE, NO_LABELS
from eyechart.models.defences.registry import DEFENCES
from eyechart.predictions.engines import ENGINES, IN_PROCESS
from eyechart.scores.baseline_names import BASELINES
from eyechart.testsets.testset_settings import LEAST, N_SAMPLES, SUITE, TestsetSettings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from eyechart.images.imageset import ImageSet
    from eyechart.models.defences.defence import Defence
    from eyechart.models.label_map import LabelMap
    from eyechart.models.model import Model
    from eyechart.scores.scoring import Fit
    from eyechart.testsets.plan import Plan

    OneModel: TypeAlias = "str | nn.Module | Model | Callable[[Tensor], Tensor]"

DEMO_MODELS = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
DEMO_SAMPLES, DEMO_BINS, DEMO_LEAST = 300, 11, 5
"""What holds for the 20 demo images where nothing else is asked for: they are too few for more."""

MAX_BATCH = 100_000
"""Images that are predicted at once, at most."""


@dataclass(frozen=True, kw_only=True)
class LoadingSettings:
    """What every command that loads models has in common."""

    download: Annotated[
        bool, Option(help="Fetch weights that are not on this machine.", group="Models")
    ] = False
    trust: Annotated[
        bool, Option(help="Also load files that can run code when loaded.", group="Models")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ModelCheckSettings:
    """What a model's input is checked for."""

    expect: Annotated[
        float | None, Option(help="The top-1 that the models should have, as 0.75.", group="Models")
    ] = None
    n: Annotated[int, Option(help="Pictures to try other inputs on.", group="Data")] = 500

    def check(self) -> None:
        """Raise a UsageError unless the settings make sense."""
        if self.n < 1:
            raise UsageError(f"n must be at least 1, got {self.n}.")
        if self.expect is not None and not 0 <= self.expect <= 1:
            raise UsageError(
                f"The expected top-1 must be a share from 0 to 1, got {self.expect:g}."
            )


@dataclass(frozen=True)
class EvaluateSettings(TestsetSettings, CurveSettings, ComparisonSettings, LoadingSettings):
    """All that an evaluation is to do."""

    model: Annotated[
        "OneModel | Sequence[OneModel] | None",
        Option(
            help="timm:NAME, hf:REPO, onnx:FILE, module:attribute, a file or a card; all share one"
            " pass; see eyechart list models. Without any: EfficientNet-Lite0, 1 and 2.",
            group="Models",
            python="Also a torch module, a function of images in 0…1, or a list of models.",
            metavar="[MODEL]...",
            typed=list[str],
            is_argument=True,
        ),
    ] = None
    images: Annotated[
        "FilePath | ImageSet | None",
        Option(
            help="Class folders, a CSV or Parquet file with path and label, or corrupted images of"
            " any benchmark in ImageNet-C's or CIFAR-10-C's layout; without it 20 demo images.",
            group="Data",
            python="Also an ImageSet.",
            metavar="PATH",
            path="folder or file",
        ),
    ] = None
    suite: Annotated[
        str | None,
        Option(
            help=f"A suite's name or YAML file; {SUITE}, or what files are of.",
            group="Corruptions",
        ),
    ] = None
    n: Annotated[
        int | None,
        Option(
            help=f"Pictures per corruption; {N_SAMPLES:,}, or {DEMO_SAMPLES} of the demo's.",
            group="Corruptions",
        ),
    ] = None
    _: KW_ONLY
    out: Annotated[
        FilePath | None,
        Option(
            help="Where predictions and results go.",
            group="Output",
            python="A run that was stopped goes on there; without it predictions are dropped.",
            metavar="FOLDER",
            path="folder",
            typed_default=Path("eyechart-results"),
        ),
    ] = None
    labels: Annotated[
        str,
        Option(
            help=f"{NATIVE} (the data set's classes), {ENTRY16} (humans' 16 categories) or"
            f" {NO_LABELS}.",
            group="Data",
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
            help="224 (shorter side 256, middle 224) or another side, uncropped (shorter side 256),"
            " 224x224 (plain resize) or another WIDTHxHEIGHT, or native.",
            group="Data",
        ),
    ] = "224"
    clean: Annotated[
        FilePath | None,
        Option(
            help="With corrupted images as --images: the clean ones, as class folders or a .npy"
            " file; without them there are only error rates.",
            group="Data",
            metavar="PATH",
            path="folder or file",
        ),
    ] = None
    batch: Annotated[int | None, Option(help="Pictures predicted at once.", group="Compute")] = None
    device: Device = "cpu"
    engine: Annotated[
        str,
        Option(help=f"Where predictions are computed: {one_of(ENGINES)}.", group="Compute"),
    ] = IN_PROCESS
    baseline: Annotated[
        "OneModel | FilePath | None",
        Option(
            help=f"Whose errors CE divides by: {one_of(BASELINES)} (built-in tables, of which the"
            " suite's is taken), a model (also named as above), people, or none; auto: a built-in"
            " table where it holds.",
            group="Curves and statistics",
            typed=str,
        ),
    ] = "auto"
    label_maps: Annotated[
        "Sequence[FilePath | LabelMap]",
        Option(
            help="What the outputs are of models that have not ImageNet's 1,000: background-first,"
            " or a file with a line for each; repeatable.",
            group="Models",
            flags=("--label-map",),
            typed=list[str],
        ),
    ] = ()
    defences: Annotated[
        "Sequence[str | Defence]",
        Option(
            help=f"What comes before the models: {one_of(DEFENCES)}, as in clahe:clip=3;"
            " repeatable, in that order. A baseline has none.",
            group="Models",
            flags=("--defence",),
            metavar="NAME[:SETTING=NUMBER,…]",
            typed=list[str],
        ),
    ] = ()
    check: Annotated[
        bool,
        Option(
            help="Afterwards make 1 % of the rows again and compare.",
            group="Output",
            python="Raises CheckFailed where they differ.",
        ),
    ] = False
    fail_under: Annotated[
        Sequence[str] | Mapping[str, float],
        Option(
            help="Exit with 1 if a model's mean is worse: lower, of ece higher; as hmri_a=0.8.",
            group="Output",
            python="Raises CheckFailed instead; also a dictionary.",
            metavar="NAME=NUMBER",
            typed=list[str],
        ),
    ] = ()

    @property
    def is_demo(self) -> bool:
        """Whether the demo images are used, since no others were named."""
        return self.images is None

    @property
    def models(self) -> "list[OneModel]":
        """The models to evaluate."""
        if self.model is None:
            return list(DEMO_MODELS)
        if isinstance(self.model, Sequence) and not isinstance(self.model, str):
            return list(self.model)
        return [self.model]

    @cached_property
    def plan(self) -> "Plan":
        """What to sample."""
        from eyechart.testsets.plan import Plan, names_of

        usual = DEMO_SAMPLES if self.is_demo and self.testset is None else N_SAMPLES
        shared = {field.name: getattr(self, field.name) for field in fields(TestsetSettings)}
        shared["corruptions"] = names_of(self.corruptions)
        return Plan(
            SUITE if self.suite is None else self.suite,
            usual if self.n is None else self.n,
            labels=self.labels,
            **shared,
        )

    @cached_property
    def fit(self) -> "Fit":
        """How curves are fitted."""
        from eyechart.scores.scoring import Fit

        shared = {field.name: getattr(self, field.name) for field in fields(CurveSettings)}
        bins, least = (DEMO_BINS, DEMO_LEAST) if self.is_demo else (None, LEAST)
        shared["bins"] = bins if self.bins is None else self.bins
        shared["least"] = least if self.least is None else self.least
        return Fit(**shared)

    def with_plan(self, plan: "Plan") -> Self:
        """Return the settings of an evaluation on what that plan samples."""
        return replace(self, **{field.name: getattr(plan, field.name) for field in fields(plan)})

    @property
    def floors(self) -> tuple[tuple[str, float], ...]:
        """The scores that must be reached: name and number."""
        from eyechart.scores.registry import OVERALL

        known = [score.name for score in OVERALL if score.can_gate]
        if isinstance(self.fail_under, Mapping):
            pairs = [
                (as_text(name, "Each of fail_under"), floor)
                for name, floor in self.fail_under.items()
            ]
        else:
            pairs = [read_floor(text) for text in as_texts(self.fail_under, "fail_under")]
        for name, _ in pairs:
            if name not in known:
                raise unknown_name("score", name, known)
        return tuple(pairs)

    @cached_property
    def loaded_maps(self) -> "tuple[LabelMap, ...]":
        """The label maps, read from their files."""
        from eyechart.models.label_map import LabelMap, find_map

        return tuple(
            name
            if isinstance(name, LabelMap)
            else find_map(os.fspath(as_path(name, "Each of label_maps")))
            for name in as_list(self.label_maps, "label_maps")
        )

    @property
    def baseline_name(self) -> str:
        """Whose errors CE divides by, once a model that is the baseline was loaded."""
        if not isinstance(self.baseline, str):
            raise TypeError("the baseline is not loaded yet: see with_baseline")
        return self.baseline

    def checked(self) -> Self:
        """Return the settings, or raise a UsageError unless they make sense together."""
        from eyechart.humans.consistency import check_rule
        from eyechart.labels.rules import RULES

        if self.testset is not None:
            as_path(self.testset, "testset", "the path of a file")
        flags = ("balanced", "match_choices", "download", "trust", "check")
        for name in flags:
            as_flag(getattr(self, name), name)
        # what can be taken for a truth value becomes one, which results can hold
        settings = replace(
            self, balanced=bool(self.balanced), match_choices=bool(self.match_choices)
        )
        settings.plan.check()
        settings.fit.check()
        if self.testset is not None and self.pictures is not None:
            raise UsageError("A test set has its own pictures: leave out the number of pictures.")
        if as_text(self.rule, "rule") not in RULES:
            raise unknown_name("rule", self.rule, RULES)
        if self.clean_responses is not None:
            check_rule(as_text(self.clean_responses, "clean_responses"))
        if self.batch is not None:
            as_whole(self.batch, "batch", 1, MAX_BATCH)
        if as_text(self.engine, "engine") not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        # read once, so that what cannot be read is said before the work
        _ = settings.human_names, settings.similar_names, settings.floors
        settings._check_n()
        return settings

    def _check_n(self) -> None:
        """Raise a UsageError if there are too few samples for any curve."""
        plan, least = self.plan, self.fit.least
        if plan.sampling == "paper" and all(entry.at_levels for entry in plan.entries()):
            return
        need = int(least * 2)
        if self.testset is None and plan.n < need:
            raise UsageError(
                f"n = {plan.n} is too small for curves: two bins of {least:g} answers"
                f" need at least {need}; give a larger n or a smaller least."
            )


def read_floor(text: str) -> tuple[str, float]:
    """Return the name and the number of NAME=NUMBER."""
    name, equals, number = text.partition("=")
    try:
        floor = float(number)
    except ValueError:
        floor = float("nan")
    if not equals or floor != floor:
        raise UsageError(f"--fail-under must be NAME=NUMBER, such as hmri_a=0.8, got '{text}'.")
    return name, floor
