"""VIF on a steerable pyramid: the fraction of a clean image's information left after corruption."""

from collections.abc import Callable
from math import log
from typing import TypeVar

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.core.parallel import on_all_cores
from eyechart.visual_change.vif.mixture import (
    covariance,
    decompose,
    gain_and_noise,
    log_terms,
    multipliers,
    window_covariance,
    window_moments,
)
from eyechart.visual_change.vif.pyramid import count_scales, dropped_blocks, subbands, window_side
from eyechart.visual_change.vif.statistics import (
    FLAT,
    CleanStatistics,
    Definition,
    Scale,
    join,
    share,
)

CLEAN_PIXELS = {"cpu": 4 * 224 * 224, "cuda": 512 * 224 * 224}
"""Number of pixels processed at once, chosen to fit a CPU's cache or to fill a GPU."""

MAX_IMAGES = 16_384
"""Maximum number of images processed at once, because the second axis of a CUDA grid is limited."""

Result = TypeVar("Result")


def describe_clean(
    gray: Tensor, definition: Definition, dtype: torch.dtype = torch.float64
) -> CleanStatistics:
    """Return the statistics of gray images (B, H, W) in gray levels 0 … 255.

    `dtype`: the type of the stored subbands; the pyramid and the covariances are always computed in
    float64.
    """
    statistics = join(map_chunks(gray, lambda part: _describe(gray[part], definition, dtype)))
    if dtype == torch.float64 or not statistics.ill_conditioned.any():
        return statistics
    # float32 bands are not precise enough for these images, so they are described again in float64
    places = statistics.ill_conditioned.nonzero().flatten()
    return statistics.with_exact(places, describe_clean(gray[places], definition))


def fidelity(clean: CleanStatistics, corrupted: Tensor) -> Tensor:
    """Return VIF (B,), in float64, of corrupted gray images (B, H, W) in gray levels.

    `clean` has the same number of images as `corrupted`, or a single image for all.
    """
    kept = torch.cat(map_chunks(corrupted, lambda part: _kept(clean, part, corrupted[part])))
    vif = share(kept, clean.total)
    if clean.exact is None:
        return vif
    places, exact = clean.exact
    if len(clean) == 1:
        return fidelity(exact, corrupted)
    return vif.index_copy(0, places, fidelity(exact, corrupted[places]))


def kept_terms(scale: Scale, corrupted: Tensor, window: int, definition: Definition) -> Tensor:
    """Return Σ_j log(1 + g² s λ_j / (σ_v² + σ_n²)) of each inner block (B, 2, n, m)."""
    mean, variance = window_moments(corrupted, window)
    shared = window_covariance(scale.bands, scale.mean, corrupted, mean, window)
    gain, noise = gain_and_noise(
        scale.variance, variance, shared, definition.flat(window), FLAT, definition.gainless(window)
    )
    # signal-to-noise ratio of the channel: g² s / (σ_v² + σ_n²), per unit eigenvalue
    ratio = gain * gain * scale.multiplier / (noise + definition.noise_variance)
    return log_terms(ratio, scale.eigenvalues)


def clean_terms(scale: Scale, definition: Definition) -> Tensor:
    """Return Σ_j log(1 + s λ_j / σ_n²) of each inner block (B, 2, n, m)."""
    ratio = scale.multiplier.to(torch.float64) / definition.noise_variance
    return log_terms(ratio, scale.eigenvalues)


def _describe(gray: Tensor, definition: Definition, dtype: torch.dtype) -> CleanStatistics:
    height, width = gray.shape[1:]
    count = count_scales(height, width)
    bands = subbands(gray, count, dtype)
    covariances = [covariance(band, definition.sample_covariance) for band in bands]
    # all at once, because each decomposition has a high launch cost on a GPU
    eigenvalues, whitening, condition = decompose(torch.stack(covariances, dim=1))
    scales, totals, bits = [], [], []
    for level, scale_bands in enumerate(bands):
        window = window_side(level, count)
        model = eigenvalues[:, level], whitening[:, level]
        scale, sums, variation = _describe_scale(scale_bands, *model, window, definition)
        scales.append(scale)
        totals.append(definition.pooled(sums, scale.blocks, level))
        bits.append(variation / scale.blocks)
    return CleanStatistics(
        definition,
        height,
        width,
        tuple(scales),
        total=torch.stack(totals).sum(dim=0),
        # ½ log(1 + SNR) per coefficient, from nats to bits
        information=torch.cat(bits, dim=1).mean(dim=1) / (2 * log(2)),
        condition=condition.amax(dim=(1, 2)),
    )


def _describe_scale(
    bands: Tensor, eigenvalues: Tensor, whitening: Tensor, window: int, definition: Definition
) -> tuple[Scale, Tensor, Tensor]:
    """Return one scale's statistics, and two sums over its blocks (B, 2).

    The sums are Σ log(1 + s λ_j / σ_n²) and Σ log(1 + variance / σ_n²).
    """
    if has_triton(bands.device):
        from eyechart.visual_change.vif.vif_triton import describe_blocks

        return describe_blocks(bands, eigenvalues, whitening, window, definition)
    multiplier = multipliers(bands, whitening, dropped_blocks(window))
    scale = Scale(bands, *window_moments(bands, window), multiplier, eigenvalues)
    variation = torch.log1p(scale.variance / definition.noise_variance)
    return scale, clean_terms(scale, definition).sum(dim=(-2, -1)), variation.sum(dim=(-2, -1))


def _kept(clean: CleanStatistics, part: slice, corrupted: Tensor) -> Tensor:
    """Return the numerator of VIF (B,)."""
    count = len(clean.scales)
    totals = []
    for level, bands in enumerate(subbands(corrupted, count, clean.dtype)):
        scale = clean.scales[level].part(part)
        window = window_side(level, count)
        # the Triton kernels have no backward pass
        if has_triton(bands.device) and not bands.requires_grad:
            from eyechart.visual_change.vif.vif_triton import kept_by_blocks

            sums = kept_by_blocks(scale, bands, window, clean.definition)
        else:
            sums = kept_terms(scale, bands, window, clean.definition).sum(dim=(-2, -1))
        totals.append(clean.definition.pooled(sums, scale.blocks, level))
    return torch.stack(totals).sum(dim=0)


def map_chunks(
    gray: Tensor,
    work: Callable[[slice], Result],
    size: int | None = None,
    *,
    one_thread_each: bool = False,
) -> list[Result]:
    """Return the result of `work` for each part of the batch; on a CPU, all cores are used.

    Args:
        gray: the batch.
        work: what to do with a part.
        size: the number of images in a part; by default as many as VIF processes at once.
        one_thread_each: as for `on_all_cores`.
    """
    count = len(gray)
    if size is None:
        # devices other than CPU and CUDA are treated like a CPU
        n_pixels = CLEAN_PIXELS.get(gray.device.type, CLEAN_PIXELS["cpu"])
        size = min(max(1, n_pixels // gray[0].numel()), MAX_IMAGES)
    parts = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    # threads finish in any order; the start of a part puts its result in place
    results: dict[int, Result] = {}

    def one(part: slice) -> None:
        results[part.start] = work(part)

    # gradients are recorded per thread, so everything must run in this thread
    if gray.device.type == "cpu" and not gray.requires_grad:
        on_all_cores(one, parts, one_thread_each=one_thread_each)
    else:
        for part in parts:
            one(part)
    return [results[part.start] for part in parts]
