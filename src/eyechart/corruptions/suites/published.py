"""The names of the packaged suites (YAML files in `data`), and presets: settings of papers as data.

`--preset NAME` and `preset="NAME"` give options the values of a paper's own procedure unless they
are typed. Nothing slow is imported here, because the command line lists suites and presets.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated

from eyechart.core.options import Option
from eyechart.core.phrases import count_of

TITLES = {
    "imagenet-c": "ImageNet-C",
    "imagenet-c-extra": "ImageNet-C extra",
    "vcr": "VCR-Bench",
    "noc-candidates": "ImageNet-NOC candidates",
    "imagenet-noc": "ImageNet-NOC",
    "geometry": "Geometry",
}
"""Short titles for tables and charts; the YAML file has the full title."""

PUBLISHED = tuple(TITLES)

WITH_LEVELS = PUBLISHED[:2]
"""ImageNet-C and its extras, the suites with published levels 1 to 5."""

VCR = ("vcr", "vcr@paper")
"""VCR-Bench, and its variant with the functions that the paper names."""


PresetValue = str | int | float | bool | tuple[str, ...]

Words = str
"""What a value stands for in the line that a run prints; `{}` is the value, "" says nothing."""

Preset = Mapping[str, tuple[PresetValue, Words]]
"""The values of a preset by the names of options, in the order in which a run prints them."""

TESTS: Mapping[str, Preset] = MappingProxyType(
    {
        # Sections 3.2 and 4.1, and Algorithm 1. The paper gives no value of L, which is the minimum
        # count of its coverage, and says that the last bin is anchored at a known value, but not at
        # which: chance is the only one that is known without measuring, for models and for humans.
        "vcr": {
            "n": (50_000, "{:,} samples each"),
            "sampling": ("parameters", "parameters uniform in the published domains"),
            "estimator": ("spline", "Algorithm 1"),
            "bins": (40, "M = {}"),
            "min_per_bin": (20, "L = {}"),
            "binning": ("paper", ""),
            "right_anchor": ("chance", "both anchors"),
            "suite": ("vcr@paper", "{}"),
            "labels": ("entry16", "16 categories"),
        },
        # Sections 3 and 4.1, and the authors' published files, which are JPEG of quality 85
        "imagenet-c": {
            "suite": ("imagenet-c", "every image at its five published severities"),
            "stimulus": ("224", "{} px"),
            "jpeg": (85, "JPEG quality {}"),
            "labels": ("native", "ImageNet's classes"),
        },
        # Sections 3 and 5: a strength per image, drawn from the ranges of figures 5 and 6
        "imagenet-noc": {
            "n": (50_000, "{:,} samples each"),
            "sampling": ("parameters", "parameters uniform in the published domains"),
            "suite": ("imagenet-noc", ""),
            "stimulus": ("224", "{} px"),
            "labels": ("native", "ImageNet's classes"),
        },
    }
)
"""How a model is tested; the table that CE divides by follows from the suite."""

STUDIES: Mapping[str, Preset] = MappingProxyType(
    {
        # Section 4: ImageNet-100 and ResNet-18; the two benchmarks are those of section 5
        "imagenet-noc": {
            "suites": (("noc-candidates", "imagenet-c"), "noc-candidates and imagenet-c"),
            "together": (("imagenet-c", "imagenet-noc"), "also both benchmarks together"),
            "arch": ("imagenet_resnet18", "{}"),
            "every": (10, "every tenth class"),
            "stimulus": ("224x224", "{} px"),
            "epochs": (40, "{} epochs"),
            "batch_size": (256, "batch size {}"),
            "lr": (0.1, "learning rate {:g}"),
            "schedule": ("step", "divided by 10 twice"),
            "warmup": (0.0, ""),
            "weight_decay": (1e-4, "weight decay {:g}"),
            "nesterov": (False, ""),
            "share": (0.5, "{:.0%} of a batch corrupted"),
            "crop": (0, ""),
            "precision": ("float32", "{}"),
        },
    }
)
"""How the networks of an overlap study are trained and tested."""


def values_of(preset: Preset) -> dict[str, PresetValue]:
    """Return the values of a preset by the names of options."""
    return {name: value for name, (value, _) in preset.items()}


def preset_option(presets: Mapping[str, Preset], group: str) -> Option:
    """Return the option that selects one of these presets."""
    return Option(
        help="Settings of a paper's own procedure; other options take precedence:"
        f" {', '.join(presets)}.",
        group=group,
        metavar="NAME",
        presets={name: values_of(preset) for name, preset in presets.items()},
    )


TestPreset = Annotated[str | None, preset_option(TESTS, "Corruptions")]


def preset_line(
    name: str, presets: Mapping[str, Preset], values: Mapping[str, object], n_corruptions: int
) -> str:
    """Return what a preset stands for, and which values differ from it because they were typed.

    `values`: the values in effect, by the names of options; those without a value are not named.
    """
    clauses = [count_of(n_corruptions, "corruption")]
    for option, (usual, words) in presets[name].items():
        if option in values:
            clauses += _clauses(option, values[option], usual, words)
    return f"Preset {name}: {', '.join(clauses)}.".replace("Algorithm 1, M", "Algorithm 1 with M")


def _clauses(option: str, value: object, usual: PresetValue, words: Words) -> Iterator[str]:
    if value == usual:
        if words:
            yield words.format(usual)
    elif "{" in words and isinstance(value, int | float) and not isinstance(usual, str):
        yield f"{words.format(value)} instead of {usual:,}"
    else:
        title = option.replace("_", " ")
        yield f"{title} {_text(value)} instead of {_text(usual)}"


def _text(value: object) -> str:
    return " and ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
