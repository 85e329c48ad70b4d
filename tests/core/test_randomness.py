"""Philox against its published vectors, distributions against theory, keys against doubles."""

import numpy as np
import pytest
import torch
from scipy import stats

from calling import CPU, photo_levels, randomness
from eyechart.core.randomness import (
    ImageRandom,
    _poisson_by_guide,
    _poisson_by_search,
    _rounds_in_torch,
    hash64,
    philox4x32,
)
from eyechart.images.identity import content_keys, named_keys

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
FULL = 0xFFFFFFFF
# Random123, kat_vectors: counter, key, result of philox4x32 with 10 rounds
KNOWN_PREDICTIONS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((FULL,) * 4, (FULL, FULL), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]

# ---- the generator


def as_words(numbers):
    return [torch.tensor([[number]], dtype=torch.int64) for number in numbers]


@pytest.mark.parametrize(("counter", "key", "prediction"), KNOWN_PREDICTIONS)
def test_philox_gives_the_published_predictions(counter, key, prediction):
    words = philox4x32(as_words(counter), tuple(as_words(key)))
    assert tuple(int(word) for word in words) == prediction


@pytest.mark.parametrize(("counter", "key", "prediction"), KNOWN_PREDICTIONS)
def test_the_rounds_in_torch_give_the_published_predictions(counter, key, prediction):
    words = _rounds_in_torch(as_words(counter), *as_words(key))
    assert tuple(int(word) for word in words) == prediction


def test_the_rounds_in_numpy_and_in_torch_agree():
    numbers = np.random.default_rng(0).integers(0, 2**32, (6, 3, 1000))
    counter = [torch.from_numpy(words) for words in numbers[:4]]
    key = tuple(torch.from_numpy(words[:, :1].copy()) for words in numbers[4:])
    in_numpy = philox4x32(counter, key)
    in_torch = _rounds_in_torch([words.clone() for words in counter], *key)
    for one, other in zip(in_numpy, in_torch, strict=True):
        assert torch.equal(one, other)
        assert int(one.min()) >= 0
        assert int(one.max()) <= FULL


def test_the_counter_and_the_key_are_left_alone():
    counter, key = as_words(PI), tuple(as_words((1, 2)))
    before = [word.clone() for word in (*counter, *key)]
    philox4x32(counter, key)
    assert all(torch.equal(*pair) for pair in zip((*counter, *key), before, strict=True))


def test_an_image_has_its_own_sequence_wherever_it_stands():
    keys = torch.tensor([5, -9, 2**62])
    salts = [1, 2**64 - 1, 3]
    together = ImageRandom(keys, salts, CPU)
    for place in range(3):
        alone = ImageRandom(keys[place : place + 1], salts[place : place + 1], CPU)
        part = together.part(place, place + 1)
        for own in (alone, part):
            assert torch.equal(own.words("a", 101)[0], together.words("a", 101)[place])
            assert torch.equal(own.halves("a", 101)[0], together.halves("a", 101)[place])


def test_a_stream_asked_twice_gives_the_same_numbers():
    random = randomness(2)
    assert torch.equal(random.normal("noise", (3, 5)), random.normal("noise", (3, 5)))


def test_the_hash_tells_parts_apart():
    assert hash64("a", "b") != hash64("ab")
    assert hash64("a", "b") != hash64("b", "a")
    assert len({hash64(seed, "fog", draw) for seed in range(50) for draw in range(50)}) == 2500
    assert 0 <= hash64("x") < 2**64


# ---- distributions

MANY = (400, 500)
LIMIT = 1.63 / np.sqrt(MANY[0] * MANY[1])
"""A fair sample is farther from its distribution than this once in a hundred times."""


@pytest.mark.parametrize("kind", ["uniform", "uniform16"])
def test_uniform_numbers_are_spread_evenly(kind):
    sample = getattr(randomness(1), kind)("noise", MANY).numpy().ravel().astype(np.float64)
    assert 0 <= sample.min() < 1e-4
    assert 1 - 1e-4 < sample.max() < 1
    assert stats.kstest(sample, "uniform").statistic < LIMIT
    assert sample.mean() == pytest.approx(1 / 2, abs=0.002)
    assert sample.var() == pytest.approx(1 / 12, rel=0.01)


def test_normal_numbers_are_normal_up_to_their_tails():
    sample = randomness(1).normal("noise", MANY).numpy().ravel().astype(np.float64)
    assert stats.kstest(sample, "norm").statistic < LIMIT
    assert sample.mean() == pytest.approx(0, abs=0.01)
    assert sample.std() == pytest.approx(1, rel=0.005)
    assert stats.skew(sample) == pytest.approx(0, abs=0.02)
    assert stats.kurtosis(sample) == pytest.approx(0, abs=0.04)
    for bound in (2, 3, 3.5):
        expected = 2 * stats.norm.sf(bound)
        assert (np.abs(sample) > bound).mean() == pytest.approx(expected, rel=0.25)
    assert 4 < np.abs(sample).max() < 4.4


@pytest.mark.parametrize("kind", ["uniform", "uniform16", "normal"])
def test_neighbouring_numbers_do_not_depend_on_each_other(kind):
    sample = getattr(randomness(1), kind)("noise", MANY)[0].numpy()
    for one, other in ((sample[:, 1:], sample[:, :-1]), (sample[1:], sample[:-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(sample.size)


def test_integers_are_spread_evenly_over_their_range():
    drawn = randomness(1).integers("objects", (200_000,), 7).numpy().ravel()
    counts = np.bincount(drawn, minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 0.01


def test_each_image_may_have_its_own_range_of_integers():
    drawn = randomness(2).integers("objects", (5000,), torch.tensor([[3], [2**31 - 1]])).numpy()
    assert set(drawn[0]) == {0, 1, 2}
    assert 0.99 * 2**31 < drawn[1].max() < 2**31


def test_scalars_lie_strictly_between_0_and_1():
    random = ImageRandom(torch.arange(5000), [1] * 5000, CPU)
    scalars = random.scalar("parameter angle")
    assert scalars.shape == (5000,)
    assert 0 < scalars.min() < scalars.max() < 1
    assert stats.kstest(scalars, "uniform").statistic < 1.63 / np.sqrt(5000)


def correlation(one, other):
    return abs(np.corrcoef(one.numpy().ravel(), other.numpy().ravel())[0, 1])


def test_streams_keys_and_salts_give_independent_numbers():
    size = (200, 200)

    def drawn(key=1, salt=1, stream="noise"):
        return ImageRandom(torch.tensor([key]), [salt], CPU).normal(stream, size)

    base = drawn()
    others = [
        drawn(stream="noise 2"),
        drawn(key=2),
        drawn(key=1 + 2**32),
        drawn(key=1 - 2**63),
        drawn(salt=2),
        drawn(salt=1 + 2**32),
        drawn(salt=1 + 2**63),
    ]
    for place, other in enumerate(others):
        for rest in (base, *others[:place]):
            assert correlation(rest, other) < 4 / 200


# ---- photons


def grid(photons, uniforms=4096):
    """Every eighth gray level with evenly spaced 16-bit uniform numbers, the last one included."""
    levels = torch.arange(0, 256, 15)[:, None].expand(-1, uniforms)
    halves = torch.linspace(0, 65_535, uniforms).round().to(torch.int64).expand(len(levels), -1)
    rates = levels.numpy() / 255 * photons
    return levels.contiguous(), halves.contiguous(), rates


@pytest.mark.parametrize("photons", [0.5, 3, 12, 60, 500, 2000])
def test_photon_counts_are_the_inverse_distribution_function(photons):
    levels, halves, rates = grid(photons)
    expected = stats.poisson.ppf((halves.numpy() + 0.5) / 65_536, rates)
    by_guide = _poisson_by_guide(levels, halves, photons)
    by_search = _poisson_by_search(levels[None], halves[None], np.array([photons], dtype=float))[0]
    np.testing.assert_array_equal(by_guide.numpy(), expected)
    np.testing.assert_array_equal(by_search.numpy(), expected)


def test_a_search_over_mixed_photons_finds_each_images_own_counts():
    photons = np.array([60.0, 0.5, 500.0, 60.0])
    levels, halves, _ = grid(1, uniforms=512)
    together = _poisson_by_search(
        levels.expand(4, -1, -1).contiguous(), halves.expand(4, -1, -1).contiguous(), photons
    )
    for counts, own in zip(together, photons, strict=True):
        assert torch.equal(counts, _poisson_by_guide(levels, halves, own).to(counts.dtype))


@pytest.mark.parametrize("photons", [0.5, 3, 60, 500])
def test_photon_counts_have_the_mean_and_variance_of_poisson(photons):
    levels = torch.full((1, 300, 300), 128, dtype=torch.uint8)
    counts = randomness(1).poisson("noise", levels, np.array([photons])).numpy().astype(float)
    rate = photons * 128 / 255
    assert counts.mean() == pytest.approx(rate, abs=4 * np.sqrt(rate / counts.size))
    assert counts.var() == pytest.approx(rate, rel=0.03)
    assert (counts == 0).mean() == pytest.approx(np.exp(-rate), abs=0.006)


def test_photon_counts_only_grow_with_the_photons():
    levels = photo_levels(48, 48, batch=1)
    random = randomness(1)
    before = torch.zeros(levels.shape, dtype=torch.int64)
    for photons in (0.5, 1, 3, 3.1, 12, 60, 200, 500, 501, 1999):
        counts = random.poisson("noise", levels, np.array([float(photons)]))
        assert (counts >= before).all()
        before = counts


def test_black_pixels_catch_no_photons():
    levels = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    assert not randomness(1).poisson("noise", levels, np.array([500.0])).any()


# ---- keys


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 8), (31, 17), (32, 32)])
def test_the_same_image_has_the_same_key_anywhere_in_any_batch(size, channels):
    images = photo_levels(*size, batch=4, channels=channels)
    keys = content_keys(images)
    assert len(set(keys.tolist())) == 4
    order = [3, 1, 1, 0, 2]
    assert torch.equal(content_keys(images[order]), keys[order])
    for place in range(4):
        assert content_keys(images[place : place + 1]).tolist() == [keys[place].item()]


@pytest.mark.parametrize("channels", [1, 3])
def test_one_changed_pixel_changes_the_key(channels):
    image = photo_levels(32, 32, batch=1, channels=channels)
    keys = {content_keys(image).item()}
    places = range(0, image.numel(), 7)
    for place in places:
        other = image.clone()
        other.view(-1)[place] ^= 1
        keys.add(content_keys(other).item())
    assert len(keys) == len(places) + 1


def test_moved_pixels_and_other_shapes_change_the_key():
    image = photo_levels(32, 32, batch=1)
    others = [image, image.flip(1), image.flip(2), image.flip(3), image.mT.contiguous()]
    others += [image.reshape(1, 3, 16, 64), image.reshape(1, 1, 32, 96), image.roll(8, dims=3)]
    assert len({content_keys(other).item() for other in others}) == len(others)
    flat = [torch.full((1, 3, 8, 8), level, dtype=torch.uint8) for level in range(256)]
    assert len({content_keys(one).item() for one in flat}) == 256


def test_keys_spread_over_all_64_bits():
    images = torch.zeros(2000, 1, 8, 8, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(2000) % 256
    images[:, 0, 0, 1] = torch.arange(2000) // 256
    keys = content_keys(images).numpy().view(np.uint64)
    assert len(np.unique(keys)) == 2000
    for bit in range(64):
        share = ((keys >> np.uint64(bit)) & np.uint64(1)).mean()
        assert share == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(2000))


def test_a_key_does_not_depend_on_where_in_memory_the_pixels_begin():
    image = photo_levels(16, 16, batch=1)
    for offset in (1, 3, 8):
        record = torch.cat((torch.zeros(offset, dtype=torch.uint8), image.flatten()))
        inside = record[offset:].reshape(image.shape)
        assert torch.equal(content_keys(inside), content_keys(image))


def test_names_make_keys():
    keys = named_keys(["a", "b", 3], 3).tolist()
    assert len(set(keys)) == 3
    assert named_keys([3, "b"], 2).tolist() == [keys[2], keys[1]]
