"""Drop-in replacement for the imagecorruptions package; only the import has to change.

    from eyechart.integrations.imagecorruptions import corrupt, get_corruption_names

Strengths are the same as in that package: the levels published for 224 px images are used unchanged
at every image size, except for `elastic_transform`, which uses the package's own parameters.
docs/how-to/compat.md lists the differences.
"""

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.apply import corrupt as corrupt_images
from eyechart.corruptions.suites.suite import find_entry

Levels = NDArray[np.uint8]

TABLE_SIDE = 224
"""imagecorruptions uses the levels published for images with this side in px, at any image size."""

# imagecorruptions rejects smaller images, although the corruptions here accept them
SMALLEST_SIDE = 32
SEVERITIES = (1, 2, 3, 4, 5)

NAMES = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    *("speckle_noise", "gaussian_blur", "spatter", "saturate"),
)

SUBSETS = {
    "common": slice(0, 15),
    "validation": slice(15, 19),
    "all": slice(0, 19),
    "noise": slice(0, 3),
    "blur": slice(3, 7),
    "weather": slice(7, 11),
    "digital": slice(11, 15),
}
"""The range of positions in `NAMES` that each subset occupies."""

ELASTIC_AMPLITUDES = (12.5, 16.25, 21.25, 25.0, 30.0)
"""Amplitudes of elastic_transform at severities 1 to 5, in units of 0.5 % of the height in px."""

FROST_SCALE = 1.1
"""imagecorruptions enlarges a frost texture by this factor before it crops a region."""


def corrupt(
    image: Levels,
    severity: int = 1,
    corruption_name: str | None = None,
    corruption_number: int = -1,
) -> Levels:
    """Corrupt an image in the same way as `imagecorruptions.corrupt`.

    Random numbers come from NumPy's global state: call `np.random.seed` first for reproducible
    results.

    Args:
        image: uint8 of shape (H, W), (H, W, 1) or (H, W, 3), at least 32 × 32 px; gray images come
            back with three channels, which differ under colored corruptions.
        severity: 1, 2, 3, 4 or 5.
        corruption_name: one of `get_corruption_names("all")`; it takes precedence over
            `corruption_number`.
        corruption_number: the index of the name in that list, 0 to 18.

    Returns:
        The corrupted image, uint8 of shape (H, W, 3).

    Example:
        >>> import numpy as np
        >>> corrupt(np.zeros((48, 64), np.uint8), 1, "brightness").shape
        (48, 64, 3)
    """
    levels = _three_channels(image)
    if corruption_name is None:
        whole = isinstance(corruption_number, int | np.integer)
        whole = whole and not isinstance(corruption_number, bool)
        if whole and corruption_number == -1:
            raise UsageError("Give corruption_name or corruption_number.")
        if not (whole and 0 <= corruption_number < len(NAMES)):
            raise UsageError(
                f"corruption_number must be in [0, {len(NAMES) - 1}], got {corruption_number!r}."
            )
        corruption_name = NAMES[corruption_number]
    elif corruption_name not in NAMES:
        raise unknown_name("corruption", str(corruption_name), NAMES)
    return _corrupt(corruption_name, levels, severity)


def get_corruption_names(subset: str = "common") -> list[str]:
    """Return the corruption names of a subset, in the order of their numbers.

    Args:
        subset: "common" (15), "validation" (4), "all", "noise", "blur", "weather" or "digital".

    Example:
        >>> get_corruption_names("noise")
        ['gaussian_noise', 'shot_noise', 'impulse_noise']
    """
    if not isinstance(subset, str) or subset not in SUBSETS:
        raise UsageError(f"subset must be one of {', '.join(SUBSETS)}, got {subset!r}.")
    return list(NAMES[SUBSETS[subset]])


def _three_channels(image: Levels) -> Levels:
    """Return the image as (H, W, 3); raise an error if imagecorruptions does not accept it."""
    if not isinstance(image, np.ndarray):
        raise UsageError(f"image must be a NumPy array, got {type(image).__name__}.")
    if image.dtype != np.uint8:
        raise UsageError(f"image must be of type uint8, got {image.dtype}.")
    if image.ndim not in (2, 3):
        raise UsageError(f"image must be of shape (H, W) or (H, W, channels), got {image.shape}.")
    levels = image[..., None] if image.ndim == 2 else image
    if min(levels.shape[:2]) < SMALLEST_SIDE:
        raise UsageError(
            f"image must be at least {SMALLEST_SIDE} px high and wide, got shape {image.shape}."
        )
    if levels.shape[2] not in (1, 3):
        raise UsageError(f"image must have 1 or 3 channels, got {levels.shape[2]}.")
    return np.repeat(levels, 3, axis=2) if levels.shape[2] == 1 else levels


def _corrupt(name: str, image: Any, severity: int = 1) -> Levels:
    """Corrupt an array or PIL image and return a uint8 array; all functions here call this one."""
    whole = isinstance(severity, int | np.integer) and not isinstance(severity, bool)
    if not (whole and severity in SEVERITIES):
        raise UsageError(f"severity must be 1, 2, 3, 4 or 5, got {severity!r}.")
    levels = np.asarray(image) if isinstance(image, Image.Image) else image
    if name == "pixelate":
        # Enlarged by nearest neighbor; ImageNet-C uses a box filter instead.
        height, width = levels.shape[:2]
        size = find_entry(name).levels[TABLE_SIDE]["size"][severity - 1]
        # sizes are truncated, as in imagecorruptions
        small = Image.fromarray(levels).resize(
            (int(width * size), int(height * size)), Image.Resampling.BOX
        )
        return np.asarray(small.resize((width, height), Image.Resampling.NEAREST))
    seed = 0
    # other corruptions must not advance the state, or later results of the caller would change
    if find_entry(name).corruption.random:
        # the only use of NumPy's global state: callers seed it for reproducible results
        seed = int(np.random.randint(2**63, dtype=np.int64))
    parameters: dict[str, Any] = _parameters(name, int(severity), *np.shape(levels)[:2])
    result: Levels = corrupt_images(levels, name, seed=seed, **parameters)
    return result


def _parameters(name: str, severity: int, height: int, width: int) -> dict[str, Any]:
    """Return the parameters that imagecorruptions uses for an image of this size; lengths in px."""
    if name == "elastic_transform":
        # imagecorruptions smooths by 1 % of each side; only one sigma is possible here, so use
        # their geometric mean
        amplitude = ELASTIC_AMPLITUDES[severity - 1] * 0.005 * height
        return {"amplitude": amplitude, "sigma": 0.01 * sqrt(height * width), "shift": 0.0}
    levels = find_entry(name).levels[TABLE_SIDE]
    parameters = {parameter: values[severity - 1] for parameter, values in levels.items()}
    return parameters | ({"scale": FROST_SCALE} if name == "frost" else {})


def _function(name: str) -> Callable[..., Levels]:
    function = partial(_corrupt, name)
    # a partial has no `__name__`, unlike the functions of imagecorruptions
    function.__name__ = name  # type: ignore[attr-defined]
    return function


corruption_tuple = tuple(map(_function, NAMES))
corruption_dict = dict(zip(NAMES, corruption_tuple, strict=True))

(
    gaussian_noise,
    shot_noise,
    impulse_noise,
    defocus_blur,
    glass_blur,
    motion_blur,
    zoom_blur,
    snow,
    frost,
    fog,
    brightness,
    contrast,
    elastic_transform,
    pixelate,
    jpeg_compression,
    speckle_noise,
    gaussian_blur,
    spatter,
    saturate,
) = corruption_tuple
