"""Drawings as their packages mean them, and drawings that are one and the same."""

import itertools

import numpy as np
import pytest
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.structure import duplicates
from eyechart.structure.duplicates import (
    FARTHEST,
    MOST_APART,
    WHITE,
    near_duplicates,
    perceptual_hash,
)
from eyechart.structure.emoji_svg import Style, drawn, find_emoji, rasterize
from eyechart.structure.npm_packages import Package, find_package
from icon_packages import (
    FEW,
    NAMES_OF_EMOJI,
    circle,
    code,
    drawing,
    names_files,
    rectangle,
    style_files,
    write_archive,
    write_installed,
)

# no axis of this mirrors it, and no turn: all edges lie between pixels at 32 px
UNEVEN = rectangle("#c00000", 2, 3, 5, 2) + rectangle("#0000c0", 9, 10, 1, 4)


def style_of(folder, icons, style="noto", **more):
    files = style_files(style, icons, **more)
    return Style(style, Package(style, write_installed(folder, style, files)))


def pixels(style, name, side=32):
    return rasterize(style.svg(name), side)


def turned(image, horizontally=False, vertically=False, quarters=0):
    """A picture flipped and then turned clockwise, by numpy alone."""
    if horizontally:
        image = np.flip(image, axis=1)
    if vertically:
        image = np.flip(image, axis=0)
    return np.rot90(image, -quarters)


def test_a_drawing_is_on_white_and_where_its_numbers_say(tmp_path):
    shown = pixels(style_of(tmp_path, {"uneven": UNEVEN}), "uneven")
    expected = np.full((32, 32, 3), 255, dtype=np.uint8)
    expected[6:10, 4:14] = (0xC0, 0, 0)
    expected[20:28, 18:20] = (0, 0, 0xC0)
    assert shown.dtype == np.uint8
    assert np.array_equal(shown, expected)


def test_what_is_half_transparent_mixes_with_white(tmp_path):
    body = '<path fill="#ff0000" fill-opacity=".5" d="M0 0h16v16H0z"/>'
    shown = pixels(style_of(tmp_path, {"veil": body}), "veil", 8).astype(int)
    assert np.all(shown[..., 0] == 255)
    assert np.abs(shown[..., 1:] - 127.5).max() <= 1


@pytest.mark.parametrize("side", [8, 33, 100])
def test_a_drawing_has_the_size_that_is_asked_for(tmp_path, side):
    assert pixels(style_of(tmp_path, {"dot": circle("#208020")}), "dot", side).shape == (
        side,
        side,
        3,
    )


@pytest.mark.parametrize(
    ("turn", "by_hand"),
    [
        ({}, {}),
        ({"hFlip": True}, {"horizontally": True}),
        ({"vFlip": True}, {"vertically": True}),
        ({"hFlip": True, "vFlip": True}, {"quarters": 2}),
        ({"rotate": 1}, {"quarters": 1}),
        ({"rotate": 2}, {"quarters": 2}),
        ({"rotate": 3}, {"quarters": 3}),
        ({"rotate": 4}, {}),
        ({"hFlip": False, "rotate": 0}, {}),
        # iconify flips first, and turns then
        ({"hFlip": True, "rotate": 1}, {"horizontally": True, "quarters": 1}),
        ({"vFlip": True, "rotate": 3}, {"vertically": True, "quarters": 3}),
    ],
)
def test_an_alias_is_flipped_and_turned_as_it_says(tmp_path, turn, by_hand):
    aliases = {"other": {"parent": "uneven", **turn}}
    style = style_of(tmp_path, {"uneven": UNEVEN}, aliases=aliases)
    assert np.array_equal(pixels(style, "other"), turned(pixels(style, "uneven"), **by_hand))


def test_an_icon_may_be_flipped_itself(tmp_path):
    icons = {"uneven": UNEVEN, "mirrored": {"body": UNEVEN, "hFlip": True}}
    style = style_of(tmp_path, icons)
    expected = turned(pixels(style, "uneven"), horizontally=True)
    assert np.array_equal(pixels(style, "mirrored"), expected)


@pytest.mark.parametrize(
    ("near", "far", "by_hand"),
    [
        ({"hFlip": True}, {"hFlip": True}, {}),
        ({"hFlip": True}, {"vFlip": True}, {"quarters": 2}),
        ({"rotate": 3}, {"rotate": 2}, {"quarters": 1}),
        ({"rotate": 1}, {"hFlip": True}, {"horizontally": True, "quarters": 1}),
        # turns add up and flips cancel out before any is done
        ({"hFlip": True}, {"rotate": 1}, {"horizontally": True, "quarters": 1}),
    ],
)
def test_an_alias_of_an_alias_adds_what_both_say(tmp_path, near, far, by_hand):
    aliases = {"near": {"parent": "far", **near}, "far": {"parent": "uneven", **far}}
    style = style_of(tmp_path, {"uneven": UNEVEN}, aliases=aliases)
    assert np.array_equal(pixels(style, "near"), turned(pixels(style, "uneven"), **by_hand))


def test_an_icon_that_is_not_square_is_in_the_middle_of_a_square(tmp_path):
    high = {"body": rectangle("#000000", 0, 0, 8, 16), "width": 8}
    wide = {"body": rectangle("#000000", 0, 0, 16, 4), "height": 4}
    style = style_of(tmp_path, {"high": high, "wide": wide})
    dark = pixels(style, "high").max(axis=2) == 0
    assert dark[:, 8:24].all() and not dark[:, :8].any() and not dark[:, 24:].any()
    dark = pixels(style, "wide").max(axis=2) == 0
    assert dark[12:20].all() and not dark[:12].any() and not dark[20:].any()


@pytest.mark.parametrize(
    ("turn", "by_hand"),
    [
        ({"hFlip": True}, {"horizontally": True}),
        ({"vFlip": True}, {"vertically": True}),
        ({"rotate": 1}, {"quarters": 1}),
        ({"rotate": 3}, {"quarters": 3}),
    ],
)
def test_an_icon_beside_the_origin_that_is_not_square_is_turned_within_its_frame(
    tmp_path, turn, by_hand
):
    icon = {"body": UNEVEN, "left": 2, "top": 2, "width": 8, "height": 16}
    style = style_of(tmp_path, {"slim": icon}, aliases={"other": {"parent": "slim", **turn}})
    assert np.array_equal(pixels(style, "other"), turned(pixels(style, "slim"), **by_hand))


def test_a_frame_beside_the_origin_moves_the_drawing(tmp_path):
    moved = {"body": UNEVEN, "left": 1, "top": -2, "width": 16, "height": 16}
    style = style_of(tmp_path, {"uneven": UNEVEN, "moved": moved})
    expected = np.full((32, 32, 3), 255, dtype=np.uint8)
    expected[4:, :-2] = pixels(style, "uneven")[:-4, 2:]
    assert np.array_equal(pixels(style, "moved"), expected)


def test_an_alias_may_have_a_frame_of_its_own(tmp_path):
    frame = {"left": 1, "top": -2, "width": 16, "height": 16}
    aliases = {"other": {"parent": "uneven", **frame}}
    icons = {"uneven": UNEVEN, "moved": {"body": UNEVEN, **frame}}
    style = style_of(tmp_path, icons, aliases=aliases)
    assert np.array_equal(pixels(style, "other"), pixels(style, "moved"))


def test_an_icon_of_which_nobody_says_the_size_is_16_wide_and_high(tmp_path):
    files = style_files("noto", {"uneven": UNEVEN})
    said = Style("noto", Package("noto", write_installed(tmp_path, "said", files)))
    for key in ("width", "height"):
        del files["icons.json"][key]
    unsaid = Style("noto", Package("noto", write_installed(tmp_path, "unsaid", files)))
    assert np.array_equal(pixels(unsaid, "uneven"), pixels(said, "uneven"))


def test_a_drawing_may_refer_to_parts_of_itself(tmp_path):
    body = f'<defs><g id="a">{UNEVEN}</g></defs><use xlink:href="#a"/>'
    style = style_of(tmp_path, {"uneven": UNEVEN, "used": body})
    assert np.array_equal(pixels(style, "used"), pixels(style, "uneven"))


@pytest.mark.parametrize("body", ["<path", "<g>", "</g>", "&none;", "<rect a='1' a='2'/>"])
def test_a_broken_drawing_is_a_value_error(tmp_path, body):
    style = style_of(tmp_path, {"broken": body})
    with pytest.raises(ValueError):
        pixels(style, "broken")


# names


def emoji_of(folder, emoji=FEW):
    return find_emoji(Package(NAMES_OF_EMOJI, write_installed(folder, "names", names_files(emoji))))


def found(style, emoji, *others):
    return {each.name: name for each, name in drawn(style, emoji, [style, *others])}


def test_emoji_that_belong_to_no_class_are_left_out(tmp_path):
    told = emoji_of(tmp_path, {"🌲": "evergreen_tree", "🌵": "cactus", "🗝️": "key"})
    assert [(each.name, each.label, each.code) for each in told] == [
        ("evergreen_tree", "Tree", "1f332")
    ]


def test_icons_are_found_by_their_characters_whatever_they_are_called(tmp_path):
    icons = {"plane": UNEVEN, "airplane": circle("#000000"), "rider": UNEVEN, "extra": UNEVEN}
    # one with the character that asks for colour, and one without it
    chars = {"2708": "plane", "1F6B4-200D-2642-FE0F": "rider", "2693": "extra", "1f332": "gone"}
    style = style_of(tmp_path, icons, chars=chars)
    assert found(style, emoji_of(tmp_path)) == {"airplane": "plane", "man_biking": "rider"}


def test_icons_of_a_style_that_does_not_tell_characters_are_found_by_others_names(tmp_path):
    chars = {code("☎️"): "black-telephone", code("🌲"): "fir"}
    told = style_of(tmp_path, {"black-telephone": UNEVEN, "fir": UNEVEN}, chars=chars)
    mute = style_of(tmp_path, {"black-telephone": UNEVEN, "airplane": UNEVEN}, "emojione")
    emoji = emoji_of(tmp_path)
    assert mute.codes == {}
    assert found(mute, emoji, told) == {"telephone": "black-telephone", "airplane": "airplane"}
    assert found(mute, emoji) == {"airplane": "airplane"}
    # what the other is called does not bring its drawing
    assert "flag_norway" not in found(told, emoji, mute)


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("evergreen_tree", "evergreen-tree"),
        ("one_o_clock", "one-oclock"),
        ("one_o_clock", "one-o-clock"),
        ("man_s_shoe", "mans-shoe"),
        ("flag_norway", "flag-for-norway"),
        ("flag_norway", "flag-norway"),
    ],
)
def test_packages_spell_names_in_ways_of_their_own(tmp_path, name, spelling):
    assert found(style_of(tmp_path, {spelling: UNEVEN}), emoji_of(tmp_path)) == {name: spelling}


def test_an_alias_counts_as_an_icon(tmp_path):
    aliases = {"evergreen-tree": {"parent": "fir"}}
    style = style_of(tmp_path, {"fir": UNEVEN}, aliases=aliases)
    assert found(style, emoji_of(tmp_path)) == {"evergreen_tree": "evergreen-tree"}


# packages


def test_the_newest_version_of_a_package_is_taken_by_number(tmp_path):
    for version in ("1.2.9", "1.2.10", "0.30.0", "1.2.10-beta.1"):
        write_archive(tmp_path, "@iconify-json/noto", {}, version)
    write_installed(tmp_path / "node_modules", "@iconify-json/noto", {}, "1.2.2")
    assert find_package("@iconify-json/noto", tmp_path).version == "1.2.10"
    write_installed(tmp_path / "node_modules", "@iconify-json/noto", {}, "1.3.0")
    assert find_package("@iconify-json/noto", tmp_path).version == "1.3.0"


def test_a_package_is_not_taken_for_another_with_a_longer_name(tmp_path):
    write_archive(tmp_path, "@iconify-json/noto-v1", {}, "9.0.0")
    with pytest.raises(UsageError, match="has no package @iconify-json/noto:"):
        find_package("@iconify-json/noto", tmp_path)
    write_archive(tmp_path, "@iconify-json/noto", {}, "1.0.0")
    assert find_package("@iconify-json/noto", tmp_path).version == "1.0.0"
    assert find_package("@iconify-json/noto-v1", tmp_path).version == "9.0.0"


def test_only_files_at_the_top_of_an_archive_are_read(tmp_path):
    files = {"old/icons.json": {"icons": "old"}, "icons.json": {"icons": "new"}}
    package = Package("noto", write_archive(tmp_path, "noto", files))
    assert package.read("icons.json") == {"icons": "new"}


def test_an_archive_with_any_byte_damaged_is_read_as_it_was_or_rejected(tmp_path):
    # digits that cannot be packed well, so that damage lies within what is packed
    digits = "".join(map(str, np.random.default_rng(0).integers(0, 10, 3000)))
    path = write_archive(tmp_path, "noto", {"icons.json": {"icons": digits}})
    whole = path.read_bytes()
    package = Package("noto", path)
    rejected = 0
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        assert package.version in ("1.0.0", "")
        try:
            assert package.read("icons.json") == {"icons": digits}
        except UsageError:
            rejected += 1
    assert rejected > len(whole) / 7 / 2


@pytest.mark.parametrize("share", [0, 0.02, 0.5, 0.98])
def test_an_archive_that_ends_too_early_is_rejected(tmp_path, share):
    digits = "".join(map(str, np.random.default_rng(0).integers(0, 10, 3000)))
    path = write_archive(tmp_path, "noto", {"icons.json": {"icons": digits}})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UsageError, match="noto"):
        Package("noto", path).read("icons.json")


# duplicates


def cosines(count):
    """The waves of a cosine transform as rows, by their definition."""
    places = np.arange(count)
    rows = np.cos(np.pi * np.outer(places, 2 * places + 1) / (2 * count))
    scale = np.full(count, np.sqrt(2 / count))
    scale[0] = np.sqrt(1 / count)
    return scale[:, None] * rows


def own_small(image):
    """32 × 32 means of a picture whose sides are multiples of 32."""
    side = len(image) // 32
    return image.reshape(32, side, 32, side, 3).mean(axis=(1, 3)) / 255


def own_hash(image):
    """The bits of a perceptual hash, (63,), in another way."""
    red, green, blue = np.moveaxis(own_small(image), -1, 0)
    waves = cosines(32) @ (0.299 * red + 0.587 * green + 0.114 * blue) @ cosines(32).T
    slow = np.array([waves[row, column] for row in range(8) for column in range(8)][1:])
    return slow > sorted(slow)[31]


def own_apart(one, two):
    """The mean difference of what is shown, pixel by pixel."""
    differences = []
    for first, second in zip(
        own_small(one).reshape(-1, 3), own_small(two).reshape(-1, 3), strict=True
    ):
        if min(first) < WHITE or min(second) < WHITE:
            differences += [abs(a - b) for a, b in zip(first, second, strict=True)]
    return float(np.mean(differences)) if differences else 0.0


def bits(number):
    return np.array([number >> place & 1 for place in range(63)], dtype=bool)


def apart(one, two):
    """In how many bits two hashes differ."""
    return (one ^ two).bit_count()


def smooth_image(seed, side=32):
    """A random picture without fine detail."""
    levels = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(levels).resize((side, side), Image.Resampling.BICUBIC))


def bodies():
    shapes = ["noto", "twemoji", "openmoji", "fluent", "emojione", "noto-v1", "emojione-v1"]
    return {style: drawing(style, 7) + circle("#e0a000", 10, 5, 2) for style in shapes}


@pytest.mark.parametrize("seed", range(8))
def test_a_hash_is_that_of_a_cosine_transform_by_its_definition(seed):
    image = smooth_image(seed)
    assert np.array_equal(bits(perceptual_hash(image)), own_hash(image))
    larger = smooth_image(seed, 128)
    # colors are rounded when pictures are made small
    assert np.count_nonzero(bits(perceptual_hash(larger)) != own_hash(larger)) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_half_of_a_hash_is_set_and_an_inverted_image_has_the_other_half(seed):
    image = smooth_image(seed)
    own = perceptual_hash(image)
    assert own.bit_count() == 31
    # the wave in the middle is above the middle in neither
    assert apart(own, perceptual_hash(255 - image)) == 62


@pytest.mark.parametrize("seed", range(4))
def test_a_hash_sees_neither_brightness_nor_contrast(seed):
    image = smooth_image(seed) // 4 * 2
    own = perceptual_hash(image)
    assert perceptual_hash(image + np.uint8(60)) == own
    assert perceptual_hash(image // 2) == own


def test_a_hash_barely_changes_with_the_size_of_a_drawing(tmp_path):
    style = style_of(tmp_path, bodies())
    for name in bodies():
        own = perceptual_hash(pixels(style, name, 128))
        for side in (32, 48, 64, 200):
            assert apart(own, perceptual_hash(pixels(style, name, side))) <= 8, (name, side)


def test_a_hash_barely_changes_when_an_image_is_made_small_and_large_again(tmp_path):
    style = style_of(tmp_path, bodies())
    for name in bodies():
        image = pixels(style, name, 128)
        small = Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS)
        back = np.asarray(small.resize((128, 128), Image.Resampling.BICUBIC))
        assert not np.array_equal(back, image)
        assert apart(perceptual_hash(image), perceptual_hash(back)) <= 4, name


def test_hashes_of_different_drawings_are_far_apart(tmp_path):
    style = style_of(tmp_path, bodies())
    hashes = [perceptual_hash(pixels(style, name)) for name in bodies()]
    assert min(apart(*pair) for pair in itertools.combinations(hashes, 2)) > FARTHEST / 2
    assert np.median([apart(*pair) for pair in itertools.combinations(hashes, 2)]) > FARTHEST


def test_near_duplicates_are_those_that_comparing_all_with_all_finds():
    images = []
    for seed in range(6):
        first = smooth_image(seed).astype(int)
        images.append(first)
        # ever farther from the first, until it is another picture
        for amount in (0.01, 0.02, 0.1, 0.4):
            other = smooth_image(100 + seed).astype(int)
            images.append(np.rint((1 - amount) * first + amount * other))
        # its colors exchanged: the same shapes in other colors
        images.append(first[..., ::-1])
    images = [image.astype(np.uint8) for image in images]
    order = np.random.default_rng(0).permutation(len(images))
    images = [images[place] for place in order]
    expected, close = set(), 0
    for one, two in itertools.combinations(range(len(images)), 2):
        near = np.count_nonzero(own_hash(images[one]) != own_hash(images[two])) <= FARTHEST
        close += near
        if near and own_apart(images[one], images[two]) <= MOST_APART:
            expected.add((one, two))
    assert 6 <= len(expected) < close
    pairs = near_duplicates(images)
    assert len(pairs) == len(expected)
    assert {tuple(pair) for pair in pairs.tolist()} == expected


def test_what_is_white_in_both_says_nothing_about_two_drawings():
    one = np.full((32, 32, 3), 255, dtype=np.uint8)
    two = one.copy()
    # small shapes at one place, clearly of other colors: on the whole paper they differ by 1 %
    one[14:18, 14:18] = (200, 40, 40)
    two[14:18, 14:18] = (40, 40, 200)
    assert np.abs(one.astype(float) - two).mean() / 255 < MOST_APART
    assert len(near_duplicates([one, two])) == 0


def test_the_same_image_is_a_duplicate_of_itself_even_if_it_shows_nothing():
    blank = np.full((32, 32, 3), 255, dtype=np.uint8)
    assert near_duplicates([blank, blank.copy()]).tolist() == [[0, 1]]
    same = [smooth_image(0), smooth_image(1), smooth_image(0), smooth_image(0)]
    pairs = near_duplicates(same).tolist()
    assert sorted(pairs) == [[0, 2], [0, 3], [2, 3]]


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_images_have_no_pairs(count):
    assert near_duplicates([smooth_image(0)] * count).shape == (0, 2)


def test_the_search_for_copies_tells_of_every_image(monkeypatch):
    monkeypatch.setattr(duplicates, "REPORT_EVERY", 20)
    told = []
    images = [smooth_image(0)] + [smooth_image(1)] * 41
    pairs = near_duplicates(images, advance=lambda count, message: told.append(count))
    assert told == [20, 20, 2]
    assert len(pairs) == 41 * 40 / 2
