"""The corruption functions for batches of images, one file per family, with their parameters."""

from eyechart.corruptions import (
    blur,
    color,
    digital,
    elastic,
    geometry,
    noise,
    occlusion,
    style,
    weather,
)
from eyechart.corruptions.declaration import (
    CORRUPTIONS,
    FAMILIES,
    Assets,
    Corruption,
    Parameter,
    Values,
)

__all__ = [
    "CORRUPTIONS",
    "FAMILIES",
    "Assets",
    "Corruption",
    "Parameter",
    "Values",
    "blur",
    "color",
    "digital",
    "elastic",
    "geometry",
    "noise",
    "occlusion",
    "style",
    "weather",
]
