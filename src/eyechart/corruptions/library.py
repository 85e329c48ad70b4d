"""All corruptions: importing this module imports every family, which registers its functions."""

from eyechart.corruptions import (
    blur,
    color,
    digital,
    geometry,
    noise,
    occlusion,
    style,
    weather,
)
from eyechart.corruptions.declaration import CORRUPTIONS, FAMILIES

__all__ = [
    "CORRUPTIONS",
    "FAMILIES",
    "blur",
    "color",
    "digital",
    "geometry",
    "noise",
    "occlusion",
    "style",
    "weather",
]
