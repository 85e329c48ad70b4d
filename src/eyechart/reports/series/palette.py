"""Colors, dash patterns and hatches of charts and figures, safe for all color vision."""

from collections.abc import Iterable, Mapping

from eyechart.suites.published import WITH_LEVELS

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#882255", "#999933", "#332288", "#117733"),
)
"""Colors of models: those of Okabe and Ito, then of Tol."""

CATEGORY_COLOURS: Mapping[str, tuple[str, str]] = {
    "people": ("Humans", "#444444"),
    "ViT": ("Vision transformer", "#842A8C"),
    "supervised": ("Supervised", "#0072B2"),
    "SWSL": ("Semi-weakly supervised (SWSL)", "#E69F00"),
    "adversarial": ("Adversarial training", "#009E73"),
    "CLIP": ("CLIP", "#D55E00"),
    "": ("No category given", "#999999"),
}
"""Title and color of humans and of each of `models.published_study.CATEGORIES`; vision transformers
are purple, as in the study's figures.
"""

PEOPLE_COLOUR = CATEGORY_COLOURS["people"][1]

SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down", "hexagon",
    "pentagon",
)  # fmt: skip
"""Markers of models' points, in plotly's names."""

CATEGORY_PATTERNS: Mapping[str, str] = {
    "people": "", "ViT": "/", "supervised": "", "SWSL": ".", "adversarial": "x", "CLIP": "\\",
    "": "-",
}  # fmt: skip
"""Hatches of a category's bars, so that it can be recognized without color."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Dash patterns of models' curves, in plotly's names; with ten colors, 30 models differ."""

AREAS: Mapping[str, tuple[str, str]] = {
    "people": ("humans ahead", "#E69F00"),
    "model": ("model ahead", "#0072B2"),
    "both": ("both", "#009E73"),
}
"""Colors as in Fig. 2 of the study: yellow only humans', blue only the model's, green both."""


SUITE_COLOURS: Mapping[str, tuple[str, str]] = {
    "vcr": ("#0072B2", ""),
    **dict.fromkeys(WITH_LEVELS, ("#D55E00", "/")),
    "": ("#7F7F7F", ""),
}
"""Color and hatch of a suite's bars where two suites are side by side."""

WAYS = (("#D55E00", "/"), ("#0072B2", ""), ("#E69F00", "."))
"""Color and hatch of three ways to rank models: ImageNet-C's accuracy, R_a, R_p."""

CHANGE = "#C1272D"
"""Color of the triangles beside models that change ranks."""


def dashes_of(names: Iterable[str]) -> dict[str, str]:
    """Return the dash pattern of each model."""
    return {name: DASHES[index % len(DASHES)] for index, name in enumerate(names)}
