"""A rival in the benchmark of transforms: the transforms of albumentations nearest to ours."""

import os
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

# by name and arguments, near to ImageNet-C's severity 3 at 224 px
NEAREST: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian_noise": ("GaussNoise", {"std_range": (0.18, 0.18)}),
    "shot_noise": ("ShotNoise", {"scale_range": (0.08, 0.08)}),
    "impulse_noise": ("SaltAndPepper", {"amount": (0.09, 0.09)}),
    "speckle_noise": ("MultiplicativeNoise", {"multiplier": (0.65, 1.35), "elementwise": True}),
    "gaussian_blur": ("GaussianBlur", {"blur_limit": 0, "sigma_limit": (3.0, 3.0)}),
    "defocus_blur": ("Defocus", {"radius": (6, 6), "alias_blur": (0.5, 0.5)}),
    "glass_blur": ("GlassBlur", {"sigma": 1.0, "max_delta": 2, "iterations": 3}),
    "motion_blur": ("MotionBlur", {"blur_limit": (15, 15)}),
    "zoom_blur": ("ZoomBlur", {"max_factor": (1.21, 1.21), "step_factor": (0.02, 0.02)}),
    "snow": ("RandomSnow", {"snow_point_range": (0.3, 0.3)}),
    "fog": ("RandomFog", {"fog_coef_range": (0.6, 0.6)}),
    "brightness": (
        "RandomBrightnessContrast",
        {"brightness_limit": (0.3, 0.3), "contrast_limit": (0.0, 0.0)},
    ),
    "contrast": (
        "RandomBrightnessContrast",
        {"brightness_limit": (0.0, 0.0), "contrast_limit": (-0.8, -0.8)},
    ),
    "saturate": ("HueSaturationValue", {"hue_shift_limit": 0, "sat_shift_limit": (60, 60)}),
    "spatter": ("Spatter", {"mode": "rain"}),
    "elastic_transform": ("ElasticTransform", {"alpha": 12.2, "sigma": 2.44}),
    "pixelate": ("Downscale", {"scale_range": (0.4, 0.4)}),
    "jpeg_compression": ("ImageCompression", {"quality_range": (15, 15)}),
}
"""The nearest transform to each corruption; nothing is near to frost."""


def load_albumentations() -> Any:
    """Return the package; None if it is not installed."""
    # without this it asks the network for its newest version
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("albumentations")
    except ModuleNotFoundError:
        return None


def nearest_transform(package: Any, corruption: str) -> tuple[str, Callable[[Any], Any]] | None:
    """Return the nearest transform's name and a function of one image; None if there is none."""
    if package is None or corruption not in NEAREST:
        return None
    name, arguments = NEAREST[corruption]
    transform = getattr(package, name)(**arguments, p=1.0)
    return name, lambda image: transform(image=image)["image"]
