"""Keys of pixels as one Triton kernel; CUDA builds of torch include Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _mix(  # type: ignore[no-untyped-def]
    lanes, secrets, totals, count, FIRST: tl.constexpr, SECOND: tl.constexpr, BLOCK: tl.constexpr
):
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    lane = tl.load(lanes + image * count + place, mask=inside, other=0)
    mixed = (lane ^ tl.load(secrets + place, mask=inside, other=0)) * FIRST
    mixed = (mixed ^ (mixed >> 29)) * SECOND
    mixed = mixed ^ (mixed >> 32)
    tl.atomic_add(totals + image, tl.sum(tl.where(inside, mixed, 0)))


def mix_in_triton(lanes: Tensor, secrets: Tensor, multipliers: tuple[int, int]) -> Tensor:
    """Return for each row of `lanes`, int64 (B, n), the sum of its numbers mixed with `secrets`.

    Sums wrap around modulo 2⁶⁴, so that their order does not matter.
    """
    batch, count = lanes.shape
    totals = torch.zeros(batch, dtype=torch.int64, device=lanes.device)
    first, second = multipliers
    _mix[batch, triton.cdiv(count, BLOCK)](
        lanes, secrets, totals, count, FIRST=first, SECOND=second, BLOCK=BLOCK
    )
    return totals
