"""Colorblind-safe colors, dash patterns and hatches of data in charts and figures.

Colors of text, grids and backgrounds are in `reports/figures/paper_style.py` and
`reports/html/templates`.
"""

from collections.abc import Mapping

from eyechart.corruptions.suites.published import VCR, WITH_LEVELS

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
RED = "#C1272D"

COLORS = (
    *(BLUE, VERMILION, GREEN, "#CC79A7", ORANGE, "#56B4E9"),
    *("#882255", "#999933", "#332288", "#117733"),
)
"""Colors of models: the palette of Okabe and Ito, then the palette of Tol."""

CORRECT, INCORRECT = BLUE, RED
"""Colors of correct and incorrect predictions."""

PROPERTY_COLORS: Mapping[str, str] = {"accuracy": "#1f4e79", "consistency": "#a0522d"}
"""Colors of human curves."""

CATEGORY_COLORS: Mapping[str, tuple[str, str]] = {
    "humans": ("Humans", "#444444"),
    "ViT": ("Vision transformer", "#842A8C"),
    "supervised": ("Supervised", BLUE),
    "SWSL": ("Semi-weakly supervised (SWSL)", ORANGE),
    "adversarial": ("Adversarial training", GREEN),
    "CLIP": ("CLIP", VERMILION),
    "": ("No category given", "#999999"),
}
"""Title and color of humans and of each of `results.study_models.CATEGORIES`; vision transformers
are purple, as in the study's figures.
"""

HUMAN_COLOR = CATEGORY_COLORS["humans"][1]

SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down", "hexagon",
    "pentagon",
)  # fmt: skip
"""Marker symbols for the points of models, named as in plotly."""

CATEGORY_PATTERNS: Mapping[str, str] = {
    "humans": "", "ViT": "/", "supervised": "", "SWSL": ".", "adversarial": "x", "CLIP": "\\",
    "": "-",
}  # fmt: skip
"""Hatches of each category's bars, so that categories can be told apart without color."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Dash patterns of curves, named as in plotly; with ten colors, they distinguish 30 models."""

AREAS: Mapping[str, tuple[str, str]] = {
    "humans": ("Humans ahead", ORANGE),
    "model": ("Model ahead", BLUE),
    "both": ("Both", GREEN),
}
"""Colors as in Fig. 2 of the VCR study: yellow for humans, blue for the model, green for both."""

AREA_TINTS: Mapping[str, str] = {"humans": "#fbe9c6", "model": "#cfe4f1", "both": "#e4e4e4"}
"""Light fill colors of the areas between a human curve and a model's curve."""


SUITE_COLORS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(VCR, (BLUE, "")),
    **dict.fromkeys(WITH_LEVELS, (VERMILION, "/")),
    "": ("#7F7F7F", ""),
}
"""Color and hatch of each suite's bars in charts that show two suites side by side."""

WAYS = ((VERMILION, "/"), (BLUE, ""), (ORANGE, "."))
"""Color and hatch of three ranking methods: ImageNet-C's accuracy, R_a, R_p."""

CHANGE = RED
"""Color of the triangles next to models that change ranks."""
