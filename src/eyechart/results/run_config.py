"""Settings of a run as stored in results.json.

Options for sampling, curves and humans are inherited from their settings records; this module adds
everything else that determines the predictions (images, models, versions).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from eyechart.core.errors import UsageError
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.humans.transfer import PUBLISHED
from eyechart.scores.scoring import Fit
from eyechart.stats.curve_settings import CurveSettings
from eyechart.stats.density import to_density
from eyechart.testsets.plan import Plan
from eyechart.visual_change.registry import DEFAULT_RULER

AUTO = "auto"
"""Value stored for the number of human bins if it was derived from the number of responses."""

_CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True, kw_only=True)
class FitConfig(CurveSettings):
    """How curves were fitted."""

    __pydantic_config__: ClassVar = _CONFIG

    bins: int = field()
    """Number of bins of visual change."""
    min_per_bin: int | float = field()
    """Minimum number of samples per bin."""
    density: str = "uniform"
    """How visual changes are weighted in the area under a curve."""
    seed: int = 0
    """Seed of the bootstrap replicates."""
    human_bins: int | str | None = None
    """Number of bins of human curves; "auto" if derived from the responses; null without humans."""

    @classmethod
    def of(cls, fit: Fit, *, has_humans: bool) -> "FitConfig":
        """Return the settings of a fit in the form stored in results."""
        shared = {option.name: getattr(fit, option.name) for option in fields(CurveSettings)}
        # The values in effect are stored, not the requested ones: None and functions mean nothing
        # in a file.
        shared |= {"bins": fit.n_bins, "density": to_density(fit.density).identity}
        asked = AUTO if fit.bins is None else fit.bins
        return cls(**shared, seed=fit.seed, human_bins=asked if has_humans else None)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Plan, ComparisonSettings):
    """The settings of a run."""

    __pydantic_config__: ClassVar = _CONFIG

    schema: int
    """Format version of the sample manifest."""
    record: int
    """Format version of the recorded predictions."""
    eyechart: str
    """Version of eyechart that made the predictions."""
    ruler: str = DEFAULT_RULER
    """Ruler that measured visual change."""
    ruler_version: int
    """Version of the ruler that measured visual change; values from different versions differ."""
    stimulus: str
    """How images were resized and cropped."""
    clean: int | str | None
    """How clean images were resized to match corrupted files, "" if there are no such files; null
    without clean images."""
    suite: str = field()
    """Name or YAML file of the suite."""
    n: int = field()
    """Requested number of samples per corruption."""
    sampling: str = field()
    """How strengths were sampled."""
    labels: str = field()
    """Requested label space."""
    corruptions: tuple[str, ...] = field()
    """The corruptions of the test."""
    strengths: str
    """Digest of the suite's definitions of the corruptions."""
    images: str
    """Digest of the images with their names and labels."""
    models: Mapping[str, str]
    """Digest of the weights and the precision of each model, by name."""
    testset: str
    """Digest of the test set, if one was given; "" if it was sampled from the settings."""
    humans: str | tuple[str, ...] | None = field()
    """Human references in order of precedence; null for none."""
    similar: tuple[str, ...] = (PUBLISHED,)
    """Sources that define which corruptions are similar."""
    baseline: str
    """Baseline of CE; "" for none."""
    means_over: tuple[str, ...]
    """Corruptions over which means are taken."""
    fit: FitConfig
    """The settings with which curves were fitted."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> "RunConfig":
        """Return the settings described by plain values."""
        return _ADAPTER.validate_python(plain)

    @property
    def plan(self) -> Plan:
        """The settings that determine which samples were drawn."""
        return Plan(**{option.name: getattr(self, option.name) for option in fields(Plan)})

    def written(self) -> dict[str, Any]:
        """Return the settings as plain values, in the form stored in the file."""
        plain: dict[str, Any] = _ADAPTER.dump_python(self)
        return plain


_ADAPTER = TypeAdapter(RunConfig)


def check_same_ruler(first: tuple[Path, RunConfig], second: tuple[Path, RunConfig]) -> None:
    """Raise a UsageError unless two runs, each a folder and its settings, share the ruler."""
    (first_folder, one), (second_folder, two) = first, second
    if one.ruler != two.ruler:
        raise UsageError(
            "Scores with visual change by different rulers cannot be compared:"
            f" {first_folder} has {one.ruler}, {second_folder} has {two.ruler}; evaluate both with"
            " the same --ruler."
        )
    if one.ruler_version != two.ruler_version:
        raise UsageError(
            f"Scores from different versions of {one.ruler} cannot be compared: {first_folder} has"
            f" version {one.ruler_version}, {second_folder} has {two.ruler_version}; evaluate both"
            " with the same version of eyechart."
        )
