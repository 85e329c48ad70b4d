"""Random numbers that depend on the image and on their purpose, not on the order of drawing.

Philox 4×32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a counter
and a key into random words. All further steps are integer arithmetic and table look-ups, so the
numbers are bit-identical on every device and in every batch.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from eyechart.core.arguments import short_repr
from eyechart.core.devices import has_triton, to_device
from eyechart.core.errors import UsageError

# The constants of Philox 4×32 from the paper, checked against its published test vectors.
MASK32 = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

WORTH_A_LOOP = 512
"""Number of quads per image above which NumPy on single images is faster than torch on a batch."""

BLOCK_QUADS = 1 << 15
"""Number of quads that NumPy computes at once, so that they stay in the CPU's cache."""

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
        k0, k1 = (part.numpy().view(np.uint64) for part in key)
        results = _rounds_in_numpy(small, k0, k1)
        return [torch.from_numpy(result.view(np.int64)) for result in results]
    # clones, because the rounds work in place and expanded words share memory
    return _rounds_in_torch([word.clone() for word in words], *key)


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


def _rounds_in_numpy(words: list[Words], k0: Words, k1: Words, rounds: int = ROUNDS) -> list[Words]:
    """Run Philox's rounds in place on the CPU, where NumPy's calls cost half as much as torch's."""
    c0, c1, c2, c3 = words
    spare0, spare1 = np.empty_like(c0), np.empty_like(c0)
    mask, half = np.uint64(MASK32), np.uint64(32)
    multipliers = [np.uint64(number) for number in MULTIPLIERS]
    steps = [np.uint64(number) for number in KEY_STEPS]
    for _ in range(rounds):
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


def _image_quads(key: int, salt: int, stream: int, start: int, stop: int) -> list[Words]:
    """Return the random words of one image at the positions `start` to `stop` − 1.

    Only the position differs within an image, so that most of the first two rounds is arithmetic
    with single numbers, and the products of positions are the same for every image.
    """
    low, high = _position_products(start, stop)
    k0, k1 = key & MASK32, (key >> 32) & MASK32
    product = (salt & MASK32) * MULTIPLIERS[1]
    c0, c1 = (product >> 32) ^ stream ^ k0, product & MASK32
    c2 = high ^ np.uint64(((salt >> 32) & MASK32) ^ k1)
    k0, k1 = (k0 + KEY_STEPS[0]) & MASK32, (k1 + KEY_STEPS[1]) & MASK32
    product = c0 * MULTIPLIERS[0]
    products = c2 * np.uint64(MULTIPLIERS[1])
    np.right_shift(products, np.uint64(32), out=c2)
    c2 ^= np.uint64(c1 ^ k0)
    words = [
        c2,
        products,
        low ^ np.uint64((product >> 32) ^ k1),
        np.full_like(low, product & MASK32),
    ]
    keys = [
        np.array([(part + step) & MASK32], dtype=np.uint64)
        for part, step in zip((k0, k1), KEY_STEPS, strict=True)
    ]
    # the other two rounds are above, mostly in Python integers
    return _rounds_in_numpy(words, keys[0], keys[1], ROUNDS - 2)


@lru_cache(maxsize=16)
def _position_products(start: int, stop: int) -> tuple[Words, Words]:
    """Return both halves of the positions' products in the first round."""
    products = np.arange(start, stop, dtype=np.uint64) * np.uint64(MULTIPLIERS[0])
    return products & np.uint64(MASK32), products >> np.uint64(32)


def check_seed(seed: object) -> None:
    """Raise a UsageError unless the seed is an integer between −2⁶³ and 2⁶³ (exclusive)."""
    # bool is a subclass of int, but True as a seed is a mistake
    if not isinstance(seed, int) or isinstance(seed, bool) or abs(seed) >> 63:
        raise UsageError(f"seed must be a whole number below 2⁶³, got {short_repr(seed)}.")


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

    def _blocks(self, stream: Tensor, quads: int) -> Iterator[tuple[int, slice, list[Words]]]:
        """Yield (image, range of quads, their four words) on the CPU, block by block."""
        for image, (key, salt) in enumerate(zip(self.keys.tolist(), self.salts, strict=True)):
            for start in range(0, quads, BLOCK_QUADS):
                stop = min(start + BLOCK_QUADS, quads)
                words = _image_quads(key, salt, int(stream), start, stop)
                yield image, slice(start, stop), words

    def _quads(self, stream: Tensor, quads: int) -> list[Tensor]:
        """Return four (B, quads) tensors of random 32-bit words."""
        # the counter is (position, stream, salt), the key is the image
        position = torch.arange(quads, device=self.device)
        salts, keys = self._salts[:, None], self.keys[:, None]
        counter = (position[None, :], stream, salts & MASK32, (salts >> 32) & MASK32)
        return philox4x32(counter, (keys & MASK32, (keys >> 32) & MASK32))

    def _in_triton(self, stream: Tensor, quads: int, halves: bool) -> Tensor:
        from eyechart.core.random_triton import random_words

        return random_words(self.keys, self._salts, stream, quads, halves)

    def words(self, stream: str, count: int) -> Tensor:
        """Return (B, count) random 32-bit words as int64."""
        quads, name = -(-count // 4), _stream(stream, self.device)
        if has_triton(self.device):
            return self._in_triton(name, quads, halves=False)[:, :count]
        # the four words of a quad are `quads` apart, so that the numbers depend on `count` as well
        if self.device.type == "cpu" and quads >= WORTH_A_LOOP:
            out = np.empty((len(self), 4, quads), dtype=np.int64)
            for image, part, words in self._blocks(name, quads):
                for quad, word in enumerate(words):
                    out[image, quad, part] = word
            return torch.from_numpy(out).flatten(1)[:, :count]
        return torch.cat(self._quads(name, quads), dim=1)[:, :count]

    def halves(self, stream: str, count: int) -> Tensor:
        """Return (B, count) random 16-bit values as integers, at half the cost of words.

        They are int32 on the CPU, which is the fastest type there, and int64 elsewhere.
        """
        # each of the four words of a quad has two halves
        quads, name = -(-count // 8), _stream(stream, self.device)
        if has_triton(self.device):
            return self._in_triton(name, quads, halves=True)[:, :count]
        dtype = torch.int32 if self.device.type == "cpu" else torch.int64
        out = torch.empty(len(self), 8, quads, dtype=dtype, device=self.device)
        if self.device.type == "cpu" and quads >= WORTH_A_LOOP:
            target = out.numpy()
            for image, part, blocks in self._blocks(name, quads):
                for quad, word in enumerate(blocks):
                    # a cast to 16 bits cuts off the rest, faster than a mask
                    target[image, quad, part] = word.astype(np.uint16)
                    target[image, quad + 4, part] = np.right_shift(word, np.uint64(16), out=word)
        else:
            for quad, words in enumerate(self._quads(name, quads)):
                out[:, quad] = words & 0xFFFF
                out[:, quad + 4] = words >> 16
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
        values = self.halves(stream, count).to(torch.float32).add_(0.5).mul_(2.0**-16)
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
        counts = torch.empty(levels.shape, dtype=torch.int32)
        for level, u, count, out in zip(levels, uniform, photons, counts, strict=True):
            flat = level.flatten(), u.flatten(), out.view(-1)
            # each value has its own count, so pieces limit the memory for large images
            for some_levels, some_u, some_out in zip(
                *(values.split(POISSON_AT_ONCE) for values in flat), strict=True
            ):
                some_out[:] = _poisson_by_guide(some_levels, some_u, float(count))
        return counts


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
        from eyechart.core.random_triton import count_in_triton

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


POISSON_AT_ONCE = 1 << 20
"""Number of values whose Poisson counts are found at once on a CPU."""

GUIDE_BITS = 10
"""Bits of the uniform number that index the guide table."""

LIMIT_BITS = 17
"""Bits of a threshold, which can be 65,536 itself."""


@lru_cache(maxsize=64)
def _poisson_guide(photons: float) -> tuple[NDArray[np.int64], Tensor]:
    """Return thresholds (256, K), and a guide table (256 · 1,024) for levels and cells of [0, 1).

    An element of the table holds the count at the start of the cell, in its high bits, and the next
    threshold, or 0 if the cell contains more than one threshold.
    """
    thresholds = _poisson_thresholds(torch.tensor([photons], dtype=torch.float64), photons)[0]
    width = 1 << (16 - GUIDE_BITS)
    starts = (torch.arange(1 << GUIDE_BITS) * width).expand(256, -1).contiguous()
    counts = torch.searchsorted(thresholds, starts, right=True)
    # two more thresholds that no number reaches, so that the next two can always be read
    thresholds = torch.nn.functional.pad(thresholds, (0, 2), value=(1 << LIMIT_BITS) - 1)
    limits = thresholds.gather(1, counts)
    limits *= thresholds.gather(1, counts + 1) >= starts + width
    guide = (counts << LIMIT_BITS).add_(limits).flatten().to(torch.int32)
    return thresholds.numpy(), guide


def _poisson_by_guide(levels: Tensor, uniform: Tensor, photons: float) -> Tensor:
    """Return the same counts as `_poisson_by_search`; the guide table is faster on a CPU."""
    thresholds, guide = _poisson_guide(photons)
    chance = uniform.flatten().to(torch.int32)
    cells = levels.flatten().to(torch.int32).bitwise_left_shift_(GUIDE_BITS)
    cells += chance >> (16 - GUIDE_BITS)
    counts = guide.index_select(0, cells)
    limits = counts & ((1 << LIMIT_BITS) - 1)
    counts = counts.bitwise_right_shift_(LIMIT_BITS).add_(chance >= limits)
    # a few cells hold more than one threshold, and take further steps
    found, drawn = counts.numpy(), chance.numpy()
    pending = np.flatnonzero(limits.numpy() == 0)
    found[pending] -= 1
    rows = cells.numpy() >> GUIDE_BITS
    while len(pending):
        pending = pending[thresholds[rows[pending], found[pending]] <= drawn[pending]]
        found[pending] += 1
    return counts.reshape(levels.shape)
