"""Random numbers that depend on the image and on their purpose, not on the order of drawing.

Philox 4×32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a counter
and a key into random words. All further steps are integer arithmetic and table look-ups, so the
numbers are bit-identical on every device and in every batch.
"""

import hashlib
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from eyechart.core.arguments import brief
from eyechart.core.devices import has_triton, to_device
from eyechart.core.errors import UsageError

# The constants of Philox 4×32 from the paper, checked against its published test vectors.
MASK32 = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

WORTH_A_LOOP = 512
"""Number of random words per image above which NumPy on single images is faster than torch on a
batch."""

FEW_WORDS = 1024
"""Number of random words up to which NumPy is faster than torch, regardless of shape."""

Words = NDArray[np.uint64]


def philox4x32(counter: Sequence[Tensor], key: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Return four int64 tensors of random 32-bit words for four counter words and two key words.

    All inputs are int64 tensors of 32-bit values that broadcast together.
    """
    shape = np.broadcast_shapes(*(word.shape for word in (*counter, *key)))
    words = [word.expand(shape) for word in counter]
    is_on_cpu = words[0].device.type == "cpu"
    if is_on_cpu and np.prod(shape) <= FEW_WORDS:
        # parameters of single images: the time is that of the calls
        small = [np.array(word.numpy()).view(np.uint64) for word in words]
        results = _rounds_in_numpy(small, *(part.numpy().view(np.uint64) for part in key))
        return [torch.from_numpy(result.view(np.int64)) for result in results]
    if not is_on_cpu or shape[-1] < WORTH_A_LOOP:
        return _rounds_in_torch([word.clone() for word in words], *key)
    out = [torch.empty(shape, dtype=torch.int64) for _ in range(4)]
    rows = int(np.prod(shape[:-1]))
    # unsigned, so that products of two 32-bit words fit; words below 2³² are the same in both types
    parts = [word.reshape(rows, -1).numpy().view(np.uint64) for word in words]
    keys = [
        part.expand(*shape[:-1], part.shape[-1]).reshape(rows, -1).numpy().view(np.uint64)
        for part in key
    ]
    targets = [word.view(rows, -1).numpy().view(np.uint64) for word in out]
    # row by row, so that the working set of one image stays in the cache
    for row in range(rows):
        # a copy, since the rounds work in place and expanded rows share their memory
        counters = [part[row].copy() for part in parts]
        for target, result in zip(
            targets, _rounds_in_numpy(counters, keys[0][row], keys[1][row]), strict=True
        ):
            target[row] = result
    return out


def _rounds_in_torch(words: list[Tensor], k0: Tensor, k1: Tensor) -> list[Tensor]:
    """Run Philox's ten rounds in place.

    torch has no unsigned 64-bit products, so large ones wrap to negative values; shifting and
    masking still gives the correct halves. The excess bits of low halves are removed by the next
    mask.
    """
    c0, c1, c2, c3 = words
    spare0, spare1 = torch.empty_like(c0), torch.empty_like(c0)
    for _ in range(ROUNDS):
        product0 = torch.mul(c0, MULTIPLIERS[0], out=spare0)
        product1 = torch.mul(c2, MULTIPLIERS[1], out=spare1)
        torch.bitwise_right_shift(product1, 32, out=c0)
        c0.bitwise_xor_(c1).bitwise_xor_(k0).bitwise_and_(MASK32)
        torch.bitwise_right_shift(product0, 32, out=c2)
        c2.bitwise_xor_(c3).bitwise_xor_(k1).bitwise_and_(MASK32)
        c1, spare1 = product1, c1
        c3, spare0 = product0, c3
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK32, (k1 + KEY_STEPS[1]) & MASK32
    return [c0, c1.bitwise_and_(MASK32), c2, c3.bitwise_and_(MASK32)]


def _rounds_in_numpy(words: list[Words], k0: Words, k1: Words) -> list[Words]:
    """Run Philox's ten rounds on the CPU, where NumPy's calls cost half as much as torch's."""
    c0, c1, c2, c3 = words
    spare0, spare1 = np.empty_like(c0), np.empty_like(c0)
    mask, half = np.uint64(MASK32), np.uint64(32)
    multipliers = [np.uint64(number) for number in MULTIPLIERS]
    steps = [np.uint64(number) for number in KEY_STEPS]
    for _ in range(ROUNDS):
        product0 = np.multiply(c0, multipliers[0], out=spare0)
        product1 = np.multiply(c2, multipliers[1], out=spare1)
        np.right_shift(product1, half, out=c0)
        c0 ^= c1
        c0 ^= k0
        c0 &= mask
        np.right_shift(product0, half, out=c2)
        c2 ^= c3
        c2 ^= k1
        c2 &= mask
        # swap buffers instead of copying: the old c1 and c3 become the next products' memory
        c1, spare1 = product1, c1
        c3, spare0 = product0, c3
        k0, k1 = (k0 + steps[0]) & mask, (k1 + steps[1]) & mask
    c1 &= mask
    c3 &= mask
    return [c0, c1, c2, c3]


def check_seed(seed: object) -> None:
    """Raise a UsageError unless the seed is an integer between −2⁶³ and 2⁶³ (exclusive)."""
    if not isinstance(seed, int) or isinstance(seed, bool) or abs(seed) >> 63:
        raise UsageError(f"seed must be a whole number below 2⁶³, got {brief(seed)}.")


def hash64(*parts: str | int) -> int:
    """Return a 64-bit hash of `parts`, the same on every machine (Python's own hash is salted).

    Example:
        >>> hash64("noise", 3) == hash64("noise", 3), hash64("noise", 3) == hash64("noise", 4)
        (True, False)
    """
    # with a separator, so that ("ab", "c") and ("a", "bc") differ
    text = "\x1f".join(str(part) for part in parts)
    # file names may contain bytes that are not valid text
    data = text.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@cache
def _normal_table(device: torch.device) -> Tensor:
    """Return the 65,536 standard-normal quantiles at (i + ½) / 65,536, scaled to unit variance."""
    quantiles = ndtri((np.arange(65_536) + 0.5) / 65_536)
    # cutting the tails off at 4.3 σ loses a little variance
    quantiles /= np.sqrt(np.mean(quantiles**2))
    return torch.from_numpy(quantiles.astype(np.float32)).to(device)


@lru_cache(maxsize=1024)
def _stream(name: str, device: torch.device) -> Tensor:
    """Return a 32-bit hash of a stream's name, as a tensor (1, 1)."""
    return torch.tensor([[hash64(name) & MASK32]], device=device)


class ImageRandom:
    """Random numbers for a batch of images, one independent sequence per image and stream.

    A stream is a name ("noise", "angle"); asking twice for the same stream gives the same numbers.

    Example:
        >>> import torch
        >>> both = ImageRandom(torch.tensor([1, 2]), [7, 7], torch.device("cpu"))
        >>> second = ImageRandom(torch.tensor([2]), [7], torch.device("cpu"))
        >>> torch.equal(both.uniform("noise", (4,))[1:], second.uniform("noise", (4,)))
        True
    """

    def __init__(self, keys: Tensor, salts: Sequence[int], device: torch.device) -> None:
        """Store the keys and salts of the images.

        Args:
            keys: (B,) int64, 64 bits per image.
            salts: 64 bits per image, which identify the corruption and the draw.
            device: where the numbers are computed.
        """
        self.keys = to_device(keys, device)
        self.salts = list(salts)
        self.device = device
        # torch has no arithmetic on uint64
        signed = np.array(self.salts, dtype=np.uint64).view(np.int64)
        self._salts = to_device(torch.from_numpy(signed), device)

    def __len__(self) -> int:
        return len(self.salts)

    def part(self, start: int, stop: int) -> "ImageRandom":
        """Return the random sequences of the images `start` to `stop` − 1."""
        return ImageRandom(self.keys[start:stop], self.salts[start:stop], self.device)

    def _quads(self, stream: Tensor, quads: int) -> list[Tensor]:
        """Return four (B, quads) tensors of random 32-bit words."""
        # the counter is (position, stream, salt), the key is the image
        position = torch.arange(quads, device=self.device)
        salts, keys = self._salts[:, None], self.keys[:, None]
        counter = (position[None, :], stream, salts & MASK32, (salts >> 32) & MASK32)
        return philox4x32(counter, (keys & MASK32, (keys >> 32) & MASK32))

    def _in_triton(self, stream: Tensor, quads: int, halves: bool) -> Tensor:
        from eyechart.core.philox_triton import random_words

        return random_words(self.keys, self._salts, stream, quads, halves)

    def words(self, stream: str, count: int) -> Tensor:
        """Return (B, count) random 32-bit words as int64."""
        quads, name = -(-count // 4), _stream(stream, self.device)
        if has_triton(self.device):
            return self._in_triton(name, quads, halves=False)[:, :count]
        # the four words of a quad are `quads` apart, so that the numbers depend on `count` as well
        return torch.cat(self._quads(name, quads), dim=1)[:, :count]

    def halves(self, stream: str, count: int) -> Tensor:
        """Return (B, count) random 16-bit values as int64, at half the cost of words."""
        # each of the four words of a quad has two halves
        quads, name = -(-count // 8), _stream(stream, self.device)
        if has_triton(self.device):
            return self._in_triton(name, quads, halves=True)[:, :count]
        out = torch.empty(len(self), 8, quads, dtype=torch.int64, device=self.device)
        for quad, words in enumerate(self._quads(name, quads)):
            torch.bitwise_and(words, 0xFFFF, out=out[:, quad])
            torch.bitwise_right_shift(words, 16, out=out[:, quad + 4])
        return out.flatten(1)[:, :count]

    def uniform(self, stream: str, shape: Sequence[int]) -> Tensor:
        """Return float32 (B, *shape), uniform on [0, 1) in steps of 2⁻²⁴."""
        count = int(np.prod(shape))
        # 24 bits are what a float32 holds exactly
        values = (self.words(stream, count) >> 8).to(torch.float32) * 2.0**-24
        return values.reshape(len(self), *shape)

    def uniform16(self, stream: str, shape: Sequence[int]) -> Tensor:
        """Return float32 (B, *shape), uniform on the 65,536 midpoints (i + ½) / 65,536."""
        count = int(np.prod(shape))
        values = (self.halves(stream, count).to(torch.float32) + 0.5) * 2.0**-16
        return values.reshape(len(self), *shape)

    def normal(self, stream: str, shape: Sequence[int]) -> Tensor:
        """Return float32 (B, *shape), standard normal (65,536 quantiles, tails to 4.3 σ)."""
        halves = self.halves(stream, int(np.prod(shape)))
        values = _normal_table(self.device).index_select(0, halves.flatten())
        return values.reshape(len(self), *shape)

    def scalar(self, stream: str) -> NDArray[np.float64]:
        """Return a uniform random number in (0, 1) for each image, float64 (B,)."""
        words = self.words(stream, 1)[:, 0].cpu().numpy()
        return np.asarray((words + 0.5) * 2.0**-32, dtype=np.float64)

    def integers(self, stream: str, shape: Sequence[int], count: Tensor | int) -> Tensor:
        """Return int64 (B, *shape), uniform on 0 … count − 1 (`count` < 2³¹ may broadcast)."""
        words = self.words(stream, int(np.prod(shape))).reshape(len(self), *shape)
        # multiply and shift instead of a remainder, which would favor small numbers
        return (words * count) >> 32

    def poisson(self, stream: str, levels: Tensor, photons: NDArray[np.float64]) -> Tensor:
        """Return Poisson counts with mean levels / 255 · photons[b], shaped like `levels` (B, …).

        `levels` contains integer gray levels 0 … 255, of any integer type. The inverse distribution
        function is applied to one uniform number per value, so that the counts of an image can only
        increase with its number of photons.
        """
        uniform = self.halves(stream, levels[0].numel()).reshape(levels.shape)
        if levels.device.type != "cpu":
            return _poisson_by_search(levels, uniform, photons)
        return torch.cat(
            [
                _poisson_by_guide(level, u, float(count))[None]
                for level, u, count in zip(levels, uniform, photons, strict=True)
            ]
        )


def _poisson_thresholds(photons: Tensor, top: float) -> Tensor:
    """Return Poisson distribution functions in units of 2⁻¹⁶, as int64 (len(photons), 256, K).

    `top`: the maximum of `photons`, which may be on a GPU.

    They rise along K. The count for a 16-bit uniform number is the number of thresholds in its row
    that do not exceed it.
    """
    rates = photons[:, None] * (torch.arange(256, dtype=torch.float64, device=photons.device) / 255)
    # up to mean + 6 σ: beyond, the distribution function rounds to 1
    steps = torch.arange(
        int(np.ceil(top + 6 * np.sqrt(top) + 8)), dtype=torch.float64, device=photons.device
    )
    # in logarithms, because exp(−rate) underflows for large rates
    log_terms = steps * torch.log(rates.clamp(min=1e-300))[..., None] - torch.lgamma(steps + 1)
    total = torch.cumsum(torch.exp(log_terms - rates[..., None]), dim=2)
    # cumsum may differ in its last bits between devices; rounding to 2⁻¹⁶ removes that
    return torch.floor(total.clamp(max=1.0) * 65_536 + 0.5).to(torch.int64)


def _poisson_by_search(levels: Tensor, uniform: Tensor, photons: NDArray[np.float64]) -> Tensor:
    """Find the counts by binary search in one sorted sequence that contains the CDFs of all rows.

    The row number is in the high bits of each element, and the CDF in the low bits. With Triton,
    each row is searched on its own.
    """
    distinct, inverse = np.unique(photons, return_inverse=True)
    top = float(distinct[-1])
    means = to_device(torch.from_numpy(distinct), levels.device)
    image = to_device(torch.from_numpy(inverse), levels.device)
    thresholds = _poisson_thresholds(means, top)
    if has_triton(levels.device):
        from eyechart.core.poisson_triton import count_in_triton

        return count_in_triton(levels, uniform, thresholds, image)
    thresholds = thresholds.flatten(0, 1)
    # 17 bits, since a threshold can be 65,536 itself
    rows = torch.arange(thresholds.shape[0], device=levels.device)[:, None] << 17
    image = image.reshape(-1, *[1] * (levels.ndim - 1))
    row = image * 256 + levels.to(torch.int64)
    positions = torch.searchsorted(
        (thresholds + rows).flatten(), (row << 17).add_(uniform), right=True
    )
    return positions.sub_(row.mul_(thresholds.shape[1]))


GUIDE_BITS = 10
"""Bits of the uniform number that index the guide table."""


@lru_cache(maxsize=64)
def _poisson_guide(photons: float) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return thresholds (256 · K), and the count at the start of each of 1,024 cells in [0, 1)."""
    thresholds = _poisson_thresholds(torch.tensor([photons], dtype=torch.float64), photons)[0]
    starts = (torch.arange(1 << GUIDE_BITS) << (16 - GUIDE_BITS)).expand(256, -1).contiguous()
    guide = torch.searchsorted(thresholds, starts, right=True)
    # one more threshold that no number reaches, so that the next one can always be read
    thresholds = torch.nn.functional.pad(thresholds, (0, 1), value=1 << 17)
    # positions in the flattened thresholds rather than counts save one look-up
    guide += torch.arange(256)[:, None] * thresholds.shape[1]
    return thresholds.flatten().to(torch.int32).numpy(), guide.flatten().to(torch.int32).numpy()


def _poisson_by_guide(levels: Tensor, uniform: Tensor, photons: float) -> Tensor:
    """Return the same counts as `_poisson_by_search`; the guide table is faster on a CPU."""
    thresholds, guide = _poisson_guide(photons)
    flat = uniform.flatten().to(torch.int32).numpy()
    row = levels.flatten().to(torch.int32).numpy()
    position = guide.take((row << GUIDE_BITS) + (flat >> (16 - GUIDE_BITS)))
    beyond = thresholds.take(position) <= flat
    position += beyond
    # most intervals hold at most one threshold; the rest take further steps
    pending = np.flatnonzero(beyond)
    while len(pending):
        pending = pending[thresholds[position[pending]] <= flat[pending]]
        position[pending] += 1
    position -= row * (len(thresholds) // 256)
    return torch.from_numpy(position).reshape(levels.shape)
