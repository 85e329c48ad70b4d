"""The settings of a run as results.json holds them: the records of the options, as they were used.

An option of sampling, curves or humans is declared in its record of settings and need not be named
here. What decides the predictions besides (images, models, versions) is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, WrapSerializer

from eyechart.curves.curve_settings import BINS, CurveSettings
from eyechart.curves.density import to_density
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.humans.transfer import PUBLISHED
from eyechart.scores.scoring import Fit
from eyechart.testsets.plan import Plan

AUTO = "auto"
"""The number of bins of human curves, where it was left to the number of responses."""

OMITTED = ("clean", "clean_responses", "similar", "human_bins")
"""Settings that the file holds only where they are not at their default."""

_CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)


def _written(settings: Any, plain: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values of settings that are written."""
    unused = {
        option.name
        for option in fields(settings)
        if option.name in OMITTED and getattr(settings, option.name) == option.default
    }
    return {name: value for name, value in plain.items() if name not in unused}


# a lambda, since an annotated return type would take the place of the fields in the JSON Schema
_WRITER = WrapSerializer(lambda settings, write: _written(settings, write(settings)))


@dataclass(frozen=True, kw_only=True)
class FitConfig(CurveSettings):
    """How curves were fitted."""

    __pydantic_config__: ClassVar = _CONFIG

    bins: int = field()
    """Number of bins of visual change."""
    least: int | float = field()
    """Minimum count per bin."""
    density: str = "uniform"
    """How much each visual change counts in areas."""
    seed: int = 0
    """Seed of the bootstrap replicates."""
    human_bins: int | str | None = None
    """Number of bins of human curves, "auto" if it follows from their responses; none without."""

    @classmethod
    def of(cls, fit: Fit, *, has_humans: bool) -> "FitConfig":
        """Return the settings of a fit as results hold them."""
        shared = {option.name: getattr(fit, option.name) for option in fields(CurveSettings)}
        shared |= {"bins": fit.n_bins, "density": to_density(fit.density).identity}
        asked = AUTO if fit.bins is None else fit.bins
        return cls(**shared, seed=fit.seed, human_bins=asked if has_humans else None)

    @property
    def comparable(self) -> dict[str, object]:
        """The settings by which curves of two runs are compared."""
        # older runs, and those without humans, do not say what was asked for
        asked = AUTO if self.bins == BINS else self.bins
        return vars(self) | {"human_bins": asked if self.human_bins is None else self.human_bins}


@dataclass(frozen=True, kw_only=True)
class RunConfig(Plan, ComparisonSettings):
    """The settings of a run."""

    __pydantic_config__: ClassVar = _CONFIG

    schema: int
    """Version of the manifest of samples."""
    record: int
    """Version of the recorded predictions."""
    eyechart: str
    """Version of eyechart that predicted."""
    ruler_version: int = 1
    """Version of the ruler that measured visual change; other versions measure other values."""
    stimulus: str
    """How images were resized and cropped."""
    clean: int | str | None = ""
    """How clean images came to the size of corrupted ones from files; null if there were none."""
    suite: str = field()
    """Name or YAML file of the suite."""
    n: int = field()
    """Number of samples per corruption that was asked for."""
    labels: str = field()
    """The label space that was asked for."""
    corruptions: tuple[str, ...] = field()
    """The corruptions of the test."""
    strengths: str
    """Digest of all that the suite says of the corruptions."""
    images: str
    """Digest of the images with their names and labels."""
    models: Mapping[str, str]
    """Digest of the weights and the precision of each model, by name."""
    testset: str
    """Digest of the samples that were given, "" if they follow from the settings."""
    humans: str | tuple[str, ...] | None = field()
    """The human references, by precedence; null for none."""
    similar: tuple[str, ...] = (PUBLISHED,)
    """Where the classes of similar corruptions come from."""
    baseline: str
    """By whose errors those of the models were divided, "" for none."""
    means_over: tuple[str, ...]
    """The corruptions that means are over."""
    fit: Annotated[FitConfig, _WRITER]
    """How curves were fitted."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> "RunConfig":
        """Return the settings that plain values describe."""
        return _ADAPTER.validate_python(plain)

    @property
    def plan(self) -> Plan:
        """What was sampled."""
        return Plan(**{option.name: getattr(self, option.name) for option in fields(Plan)})

    def written(self) -> dict[str, Any]:
        """Return the settings as plain values, as the file holds them."""
        plain: dict[str, Any] = _ADAPTER.dump_python(self)
        return plain


WrittenConfig = Annotated[RunConfig, _WRITER]
"""The settings of a run, as a field of a file."""

_ADAPTER: TypeAdapter[RunConfig] = TypeAdapter(WrittenConfig)
