"""The names of the packaged suites, which are YAML files in `data`.

This module imports nothing slow.
"""

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
