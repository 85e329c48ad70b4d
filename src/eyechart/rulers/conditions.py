"""The conditions of published human experiments, as batched functions on gray images.

Formulas are those of the experiments' stimuli (Geirhos et al. 2018, 2021). Which conditions an
experiment had is declared in `human_experiments`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2, pi

import torch
from torch import Tensor

from eyechart.core.randomness import ImageRandom, hash64
from eyechart.humans.placement import MEAN_GRAY, NOISE_CONTRAST
from eyechart.images.identity import content_keys

TRUNCATE = 4.0
"""Radius of Gaussian filters in standard deviations, as in scipy."""

MIN_SIGMA, MAX_SIGMA = 2**-0.5, 64.0
"""Finest scale of an eidolon, and the scale that its displacements are relative to, in px."""

FAT_SIDE = 512
"""Side in px of the mirrored image in which an eidolon is computed."""

Pair = tuple[Tensor, Tensor]
"""Displacements (B, H, W) down and to the right."""

LARGEST_NORMAL = 127.5
"""Largest value of a plane of random numbers from which displacements are computed."""


@dataclass(frozen=True, eq=False)
class Clean:
    """Clean gray images in [0, 1], float64 (B, H, W), and what conditions need besides them.

    Attributes:
        gray: The images.
        keys: The 64-bit keys of the images' random numbers.
        mean_amplitude: The mean amplitude spectrum (H, W) of the study's images.
    """

    gray: Tensor
    keys: Tensor
    mean_amplitude: Tensor

    def random(self, *purpose: str | float) -> ImageRandom:
        """Return random numbers that depend on the image and on the purpose only."""
        salt = hash64(*(f"{part:g}" if isinstance(part, float) else part for part in purpose))
        return ImageRandom(self.keys, [salt] * len(self.gray), self.gray.device)


Condition = Callable[..., Tensor]
"""Returns the images of a condition (B, H, W) from `Clean` and the condition's parameters.

Values may exceed [0, 1].
"""


def make_clean(levels: Tensor, mean_amplitude: Tensor | None = None) -> Clean:
    """Return clean images from gray levels, uint8 (B, H, W).

    `mean_amplitude`: see `amplitudes`; by default that of these images.
    """
    gray = levels.to(torch.float64) / 255
    if mean_amplitude is None:
        mean_amplitude = amplitudes(levels).mean(dim=0)
    return Clean(gray, content_keys(levels.cpu()), mean_amplitude.to(gray.device))


def amplitudes(levels: Tensor) -> Tensor:
    """Return the amplitude spectra (B, H, W) of gray levels, uint8 (B, H, W)."""
    spectra: Tensor = torch.fft.fft2(levels.to(torch.float64) / 255)
    return spectra.abs()


def to_shown(images: Tensor) -> Tensor:
    """Return images in [0, 1] as the 8 bits that a screen shows, uint8."""
    # the conversion truncates, so that one half must be added to round
    return (images.clamp(0, 1) * 255 + 0.5).to(torch.uint8)


def contrast(clean: Clean, share: float) -> Tensor:
    """Return images of contrast c around mid-gray: (1 − c)/2 + c·x."""
    return (1 - share) / 2 + share * clean.gray


def low_pass(clean: Clean, sigma: float) -> Tensor:
    """Return images blurred by a Gaussian; beyond their border lies the mean gray."""
    return _blurred(clean.gray, sigma)


def high_pass(clean: Clean, sigma: float) -> Tensor:
    """Return what a Gaussian blur removes, moved to the mean gray; σ = ∞ removes nothing."""
    if sigma == float("inf"):
        return clean.gray
    removed = clean.gray - _blurred(clean.gray, sigma)
    return removed - removed.mean(dim=(1, 2), keepdim=True) + MEAN_GRAY


def uniform_noise(clean: Clean, width: float) -> Tensor:
    """Return images of contrast 0.3 with uniform noise in ±width."""
    uniform = clean.random("uniform-noise", width).uniform("noise", tuple(clean.gray.shape[1:]))
    return contrast(clean, NOISE_CONTRAST) + width * (2 * uniform.to(torch.float64) - 1)


def phase_scrambling(clean: Clean, width: float) -> Tensor:
    """Return images whose phases are shifted by uniform random angles in ±width (degrees).

    As in the published stimuli, the two frequencies of a conjugate pair get independent shifts and
    the real part is kept. A pair is thus shifted by the mean of both angles and loses amplitude by
    the cosine of half their difference; an experiment with equal shifts would be harder.
    """
    height, breadth = clean.gray.shape[1:]
    n_pairs = (height - 1) * (breadth - 1) // 2
    uniform = clean.random("phase-scrambling", width).uniform("phase", (n_pairs,))
    shifts = (2 * uniform.to(torch.float64) - 1) * (width * pi / 180)
    # frequency 0 is in the middle; the first row and column have no partner for even sides
    middle = shifts.new_zeros(len(shifts), 1)
    angles = torch.cat([shifts, middle, -shifts], dim=1)
    angles = angles.reshape(-1, height - 1, breadth - 1)
    angles = torch.nn.functional.pad(angles, (1, 0, 1, 0))
    turns = torch.exp(1j * torch.fft.ifftshift(angles, dim=(1, 2)))
    return _real_image(torch.fft.fft2(clean.gray) * turns)


def power_equalisation(clean: Clean, share: float) -> Tensor:
    """Return images with their own phases and, if `share` is 1, the mean amplitudes."""
    if not share:
        return clean.gray
    phases = torch.fft.fft2(clean.gray).angle()
    return _real_image(clean.mean_amplitude * torch.exp(1j * phases))


def rotation(clean: Clean, degrees: float) -> Tensor:
    """Return images rotated counterclockwise by a multiple of 90 degrees."""
    return torch.rot90(clean.gray, round(degrees / 90), dims=(1, 2))


def eidolon(clean: Clean, reach: float, coherence: float, grain: float) -> Tensor:
    """Return images whose scales are displaced by smooth random fields (partial coherence).

    The image is a sum of differences of Gaussians, one per scale. Coherent displacements of a scale
    are the sum of the fields of all coarser scales, so that scales move together; incoherent ones
    are independent. The field of a scale is random noise blurred by this scale's σ (by the grain if
    incoherent). This follows the description and constants of the published toolbox (Koenderink et
    al. 2017) with interpolation between both fields; the exact version behind the human data is not
    public, so this condition is a reconstruction.

    `reach` and `grain` are in px, `coherence` is 0 … 1.
    """
    total: Tensor | float = 0.0
    for plane, coherent, incoherent in _eidolon_scales(clean, grain):
        fields = (
            coherence * together + (1 - coherence) * alone
            for together, alone in zip(coherent, incoherent, strict=True)
        )
        total = total + _displaced(plane, *(reach * field for field in fields))
    assert isinstance(total, Tensor)
    height, width = clean.gray.shape[1:]
    top, left = (FAT_SIDE - height) // 2, (FAT_SIDE - width) // 2
    return total[:, top : top + height, left : left + width].to(torch.float64)


def _real_image(spectrum: Tensor) -> Tensor:
    image: Tensor = torch.fft.ifft2(spectrum)
    return image.real


def _blurred(gray: Tensor, sigma: float) -> Tensor:
    if sigma == 0:
        return gray
    rows, columns = (_gaussian(side, sigma, gray.device) for side in gray.shape[1:])
    # relative to the gray beyond the border, so that the border's part is 0
    return rows @ (gray - MEAN_GRAY) @ columns.T + MEAN_GRAY


@lru_cache(maxsize=32)
def _gaussian(side: int, sigma: float, device: torch.device) -> Tensor:
    """Return the matrix (side, side) of a normalized Gaussian that ends at 4 σ."""
    radius = int(TRUNCATE * sigma + 0.5)
    distance = torch.arange(side, dtype=torch.float64, device=device)
    distance = (distance[:, None] - distance[None, :]).abs()
    reach = torch.arange(-radius, radius + 1, dtype=torch.float64, device=device)
    # over the whole kernel, because gray beyond the border has its weight as well
    total = torch.exp(-(reach**2) / (2 * sigma**2)).sum()
    weights = torch.exp(-(distance**2) / (2 * sigma**2)) / total
    return torch.where(distance <= radius, weights, 0.0)


# the same fields for every reach and coherence, as they take most of the time
@lru_cache(maxsize=1)
def _eidolon_scales(clean: Clean, grain: float) -> list[tuple[Tensor, Pair, Pair]]:
    """Return each scale of mirrored images (B, H, W), coarsest first, and its displacements.

    Displacements, down and to the right, coherent and incoherent, are in units of the reach.
    """
    count = ceil(2 * log2(MAX_SIGMA))
    sigmas = [MIN_SIGMA * 2 ** (level / 2) for level in range(count)]
    fat = _mirrored(clean.gray)
    blurred = [_periodic_blur(fat, sigma) for sigma in sigmas]
    random = clean.random("eidolon", grain)

    def field(name: str, sigma: float) -> Tensor:
        normal = random.normal(name, tuple(fat.shape[1:])).to(torch.float64)
        largest = normal.abs().amax(dim=(1, 2), keepdim=True)
        return _periodic_blur(normal * (LARGEST_NORMAL / largest), sigma).to(torch.float32)

    scales: list[tuple[Tensor, Pair, Pair]] = []
    # coarsest first: the coherent field of a scale is the sum of its own and all coarser ones
    sums: tuple[Tensor | float, Tensor | float] = (0.0, 0.0)
    for level in reversed(range(count)):
        sigma = sigmas[level]
        coarser = blurred[level + 1] if level + 1 < count else 0.0
        down, right = (
            before + field(f"{axis}-coherent-{level}", sigma) * (sigma / MAX_SIGMA)
            for axis, before in zip("yx", sums, strict=True)
        )
        sums = down, right
        incoherent = field(f"y-{level}", grain), field(f"x-{level}", grain)
        scales.append(((blurred[level] - coarser).to(torch.float32), (down, right), incoherent))
    return scales


def _mirrored(gray: Tensor) -> Tensor:
    """Return the images in the middle of a larger square that their mirror images fill."""
    indices = []
    for side in gray.shape[1:]:
        margin = (FAT_SIDE - side) // 2
        places = torch.arange(-margin, FAT_SIDE - margin, device=gray.device) % (2 * side)
        indices.append(torch.where(places < side, places, 2 * side - 1 - places))
    return gray[:, indices[0]][:, :, indices[1]]


def _periodic_blur(planes: Tensor, sigma: float) -> Tensor:
    rows, columns = (torch.fft.fftfreq(side, device=planes.device) for side in planes.shape[1:])
    squares = (rows[:, None] ** 2 + columns[None, :] ** 2).to(torch.float64)
    transfer = torch.exp(-2 * pi**2 * sigma**2 * squares)
    return _real_image(torch.fft.fft2(planes) * transfer)


def _displaced(planes: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Return planes (B, H, W) read at displaced positions, which end at the border."""
    height, width = planes.shape[1:]
    rows = torch.arange(height, device=planes.device)[None, :, None]
    columns = torch.arange(width, device=planes.device)[None, None, :]
    y = (rows + down).clamp(0, height - 1).to(torch.int64)
    x = (columns + right).clamp(0, width - 1).to(torch.int64)
    flat = (y * width + x).flatten(1)
    return planes.flatten(1).gather(1, flat).reshape(planes.shape)
