"""Find OpenCV, which speeds up kernels on the CPU; their torch versions define the results."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=1)
def opencv() -> Any:
    """Return the cv2 module, or None if it is not installed."""
    try:
        # cached, because Python would search for a missing module again at every call
        import cv2
    except ImportError:
        return None
    return cv2


def pixels_of(planes: NDArray[Any]) -> NDArray[Any]:
    """Return an image's planes (C, H, W) as pixels: (H, W, 3), or (H, W) if gray."""
    cv2 = opencv()
    if len(planes) == 1:
        return np.asarray(planes[0])
    if cv2 is None:
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    return np.asarray(cv2.merge(list(planes)))


def planes_of(pixels: NDArray[Any]) -> NDArray[Any] | tuple[NDArray[Any], ...]:
    """Return the planes of an image (H, W, 3) or (H, W)."""
    cv2 = opencv()
    if pixels.ndim == 2:
        return pixels[None]
    return pixels.transpose(2, 0, 1) if cv2 is None else cv2.split(pixels)


def copy_planes(pixels: NDArray[Any], target: NDArray[Any]) -> None:
    """Write the planes of an image (H, W, 3) or (H, W) to `target` (C, H, W)."""
    cv2 = opencv()
    if cv2 is None or pixels.ndim == 2:
        target[:] = pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    else:
        cv2.split(pixels, list(target))
