"""What the last page says about how the images of a study were changed, in everyday words."""

from collections.abc import Iterable, Mapping

PARTS_OF_NAMES: Mapping[str, str] = {
    "noise": "noise", "noc/gaussian": "noise", "salt_pepper": "noise",
    "blur": "blur",
    "snow": "snow", "frost": "frost", "fog": "fog", "rain": "rain", "spatter": "splashes",
    "bright": "brightness", "backlight": "brightness", "contrast": "contrast",
    "color": "color", "hue": "color", "gray_scale": "color", "saturate": "color",
    "quantization": "color",
    "pixelate": "pixels", "thumbnail": "pixels", "jpeg": "pixels", "artifacts": "pixels",
    "elastic": "distortion", "shear": "distortion", "perspective": "distortion",
    "rotate": "rotation", "rotation": "rotation", "mirror": "rotation",
    "translat": "shift", "scale": "size",
    "rhombus": "cover", "circles": "cover", "obstruction": "cover", "border": "cover",
    "style": "style",
}  # fmt: skip
"""Words by parts of corruptions' names; the first part that a name contains decides. By name,
because importing the corruptions takes seconds in which participants would wait for the server.
"""


def changes_of(corruptions: Iterable[str]) -> list[str]:
    """Return the words for these corruptions, each once, in the order of the declaration.

    Example:
        >>> changes_of(["vcr/median_blur", "frost", "vcr/gaussian_noise", "mine/sepia"])
        ['noise', 'blur', 'frost', 'other']
    """
    found = {
        next((word for part, word in PARTS_OF_NAMES.items() if part in name), "other")
        for name in corruptions
    }
    return [word for word in dict.fromkeys([*PARTS_OF_NAMES.values(), "other"]) if word in found]
