"""Contrast-limited adaptive histogram equalization (CLAHE) of lightness, by OpenCV."""

import cv2
import torch
from torch import Tensor

from eyechart.core.parallel import on_all_cores
from eyechart.models.defenses.defended import DefenseType, Setting, before_model


def equalize(images: Tensor, clip: float = 2.0, tiles: int = 8) -> Tensor:
    """Return 8-bit RGB images (B, 3, H, W) with Lab lightness equalized in tiles, on their device.

    They are computed on the CPU, which needs 0.6 ms per core for an image of 224 px. Hues do not
    change, since Lab's a and b are not modified.

    `tiles`: number of tiles in each row and in each column of the grid.
    `clip`: maximum count of a histogram bin, as a multiple of its count in a uniform histogram.
    """
    pixels = images.permute(0, 2, 3, 1).cpu().contiguous().numpy()
    equalized = torch.empty(pixels.shape, dtype=torch.uint8)

    def work(index: int) -> None:
        lab = cv2.cvtColor(pixels[index], cv2.COLOR_RGB2LAB)
        # An object for each image, because it keeps buffers that threads would share.
        lightness = cv2.createCLAHE(clip, (tiles, tiles)).apply(cv2.extractChannel(lab, 0))
        cv2.insertChannel(lightness, lab, 0)
        equalized[index] = torch.from_numpy(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))

    on_all_cores(work, range(len(pixels)))
    return equalized.permute(0, 3, 1, 2).contiguous().to(images.device)


DEFENSE = DefenseType(
    (Setting("clip", 2.0, 256), Setting("tiles", 8, 64, 1)), before_model(equalize)
)
