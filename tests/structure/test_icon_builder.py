"""The icon data set: which emoji belong to which class, and `eyechart structure icons build`."""

import csv
import os
import shutil
from fnmatch import fnmatchcase

import numpy as np
import pytest
from PIL import Image

from commands import Result, assert_rejected, contents
from eyechart.images.image_sources import find_images
from eyechart.structure import npm_packages
from eyechart.structure.emoji_svg import class_of, icon_classes
from icon_packages import (
    FEW,
    GROUPS,
    MANY,
    NAMES_OF_EMOJI,
    PACKAGES,
    circle,
    drawing,
    names_files,
    rectangle,
    style_files,
    usual_style,
    write_archive,
    write_installed,
    write_npm,
    write_packages,
)

# paper 002, appendix E
FIFTY = """
    Airplane, Arrow Directions, Ball, Biking, Bird, Blade, Boat, Books, Building, Bunny Ears,
    Cartwheeling, Clock, Cloud, Disk, Drink, Emotion Face, Envelope, Family, Fast Train, Feline,
    Flag, Flower, Footwear, Golfing, Hand, Hat, Heart, Holding Hands, Japanese Ideograph, Kiss,
    Lock, Mailbox, Marine Animal, Medal, Money, Monkey, Moon, Mountain, Numbers, Phone,
    Prohibit Sign, Star, Surfing, Tree, Umbrella, Vehicle, Water Polo, Worker, Wrestling,
    Writing Utensil
"""

# what belongs to each class, and what sounds as if it did
SORTED = {
    "Airplane": ("airplane small_airplane airplane_arrival", "helicopter pilot"),
    "Arrow Directions": (
        "up_arrow left_right_arrow right_arrow_curving_left back_arrow clockwise_vertical_arrows",
        "bow_and_arrow envelope_with_arrow heart_with_arrow mobile_phone_with_arrow repeat_button",
    ),
    "Ball": (
        "soccer_ball baseball pool_8_ball tennis american_football",
        "crystal_ball mirror_ball person_bouncing_ball flying_disc",
    ),
    "Biking": (
        "person_biking woman_biking person_mountain_biking",
        "bicycle no_bicycles motorcycle",
    ),
    "Bird": (
        "bird penguin turkey black_bird front_facing_baby_chick",
        "bat poultry_leg feather wing",
    ),
    "Blade": ("kitchen_knife crossed_swords scissors razor", "fork_and_knife pick"),
    "Boat": ("sailboat ship motor_boat", "person_rowing_boat"),
    "Books": ("books closed_book notebook ledger", "bookmark memo"),
    "Building": (
        "house houses office_building japanese_castle kaaba post_office",
        "building_construction tent station office_worker",
    ),
    "Bunny Ears": (
        "people_with_bunny_ears men_with_bunny_ears women_with_bunny_ears",
        "person_with_crown ear",
    ),
    "Cartwheeling": ("person_cartwheeling woman_cartwheeling", "person_juggling"),
    "Clock": (
        "watch stopwatch alarm_clock one_o_clock twelve_thirty",
        "hourglass_done clockwise_vertical_arrows",
    ),
    "Cloud": (
        "cloud cloud_with_snow sun_behind_cloud sun_behind_rain_cloud",
        "face_in_clouds fog",
    ),
    "Disk": ("computer_disk dvd", "flying_disc"),
    "Drink": ("hot_beverage mate clinking_glasses", "teapot baby_bottle pouring_liquid"),
    "Emotion Face": (
        "grinning_face face_with_tears_of_joy smiling_face_with_heart_eyes star_struck"
        " exploding_head face_in_clouds head_shaking_vertically cowboy_hat_face money_mouth_face",
        "skull monkey_face cat_face dog_face wind_face full_moon_face weary_cat sun_with_face",
    ),
    "Envelope": ("envelope e_mail love_letter envelope_with_arrow", "red_envelope postbox"),
    "Family": (
        "family family_man_woman_boy family_adult_adult_child",
        "couple_with_heart people_hugging",
    ),
    "Fast Train": (
        "bullet_train mountain_railway tram tram_car",
        "railway_track bus_stop",
    ),
    "Feline": (
        "cat cat_face lion grinning_cat smiling_cat_with_heart_eyes cat_with_wry_smile black_cat",
        "dog grinning_face",
    ),
    "Flag": (
        "flag_norway flag_england pirate_flag chequered_flag crossed_flags",
        "flag_in_hole closed_mailbox_with_raised_flag",
    ),
    "Flower": (
        "bouquet rose white_flower lotus",
        "flower_playing_cards person_in_lotus_position potted_plant",
    ),
    "Footwear": ("man_s_shoe ice_skate woman_s_boot", "foot footprints socks"),
    "Golfing": ("person_golfing man_golfing woman_golfing", "flag_in_hole"),
    "Hand": (
        "waving_hand clapping_hands hand_with_fingers_splayed thumbs_up raised_fist handshake"
        " backhand_index_pointing_left index_pointing_up index_pointing_at_the_viewer writing_hand"
        " heart_hands",
        "person_tipping_hand man_raising_hand woman_tipping_hand people_holding_hands"
        " women_holding_hands folding_hand_fan smiling_face_with_open_hands flexed_biceps selfie",
    ),
    "Hat": ("top_hat crown rescue_worker_s_helmet", "cowboy_hat_face person_with_crown"),
    "Heart": (
        "red_heart broken_heart heart_with_arrow heart_on_fire two_hearts revolving_hearts",
        "anatomical_heart heart_suit heart_hands couple_with_heart smiling_face_with_hearts"
        " love_letter smiling_cat_with_heart_eyes",
    ),
    "Holding Hands": (
        "people_holding_hands woman_and_man_holding_hands men_holding_hands",
        "handshake open_hands",
    ),
    "Japanese Ideograph": (
        "japanese_here_button japanese_no_vacancy_button japanese_prohibited_button",
        "japanese_symbol_for_beginner japanese_castle ok_button",
    ),
    "Kiss": (
        "kiss kiss_woman_man kiss_woman_woman",
        "kiss_mark kissing_face face_blowing_a_kiss couple_with_heart",
    ),
    "Lock": ("locked unlocked locked_with_key", "key"),
    "Mailbox": (
        "postbox closed_mailbox_with_raised_flag open_mailbox_with_lowered_flag",
        "post_office outbox_tray",
    ),
    "Marine Animal": (
        "whale fish shrimp octopus seal",
        "fried_shrimp fish_cake_with_swirl spiral_shell turtle duck",
    ),
    "Medal": ("military_medal 1st_place_medal", "trophy"),
    "Money": ("coin yen_banknote money_with_wings", "money_mouth_face receipt"),
    "Monkey": ("monkey monkey_face gorilla see_no_evil_monkey", "dog_face"),
    "Moon": (
        "new_moon crescent_moon full_moon_face first_quarter_moon_face",
        "moon_cake sun_with_face star_and_crescent",
    ),
    "Mountain": (
        "mountain mount_fuji snow_capped_mountain",
        "person_mountain_biking mountain_railway sunrise_over_mountains",
    ),
    "Numbers": (
        "keycap_0 keycap_1 keycap_9 keycap_10 input_numbers",
        "keycap_asterisk keycap_number_sign input_symbols hundred_points",
    ),
    "Phone": ("mobile_phone telephone vibration_mode mobile_phone_off", "no_mobile_phones pager"),
    "Prohibit Sign": (
        "prohibited no_entry no_mobile_phones non_potable_water no_one_under_eighteen",
        "potable_water japanese_prohibited_button see_no_evil_monkey notebook",
    ),
    "Star": (
        "star glowing_star star_of_david eight_pointed_star dizzy",
        "star_struck star_and_crescent eight_spoked_asterisk sparkle",
    ),
    "Surfing": ("person_surfing man_surfing woman_surfing", "person_swimming"),
    "Tree": ("evergreen_tree christmas_tree leafless_tree", "cactus"),
    "Umbrella": (
        "umbrella closed_umbrella umbrella_on_ground beach_with_umbrella",
        "cloud_with_lightning_and_rain",
    ),
    "Vehicle": (
        "bus taxi racing_car auto_rickshaw",
        "bicycle police_car_light bus_stop railway_car tram_car",
    ),
    "Water Polo": (
        "person_playing_water_polo man_playing_water_polo",
        "person_playing_handball potable_water",
    ),
    "Worker": (
        "health_worker man_teacher woman_cook guard man_guard astronaut woman_construction_worker",
        "ninja superhero rescue_worker_s_helmet prince",
    ),
    "Wrestling": ("people_wrestling women_wrestling", "person_climbing"),
    "Writing Utensil": ("pencil pen crayon paintbrush", "writing_hand memo locked_with_pen"),
}


def build(run, source, out, *more):
    return run("structure", "icons", "build", "--from", source, "--out", out, *more)


def two(*styles):
    """The words that choose styles; two of them if none are named."""
    return [word for style in styles or ("noto", "twemoji") for word in ("--style", style)]


def rows_of(out):
    with (out / "icons.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def source(tmp_path):
    return write_packages(tmp_path / "packages")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "icons"


# classes


def test_the_classes_are_the_fifty_of_the_paper():
    fifty = [" ".join(name.split()) for name in FIFTY.split(",")]
    assert len(fifty) == 50
    assert list(icon_classes()) == fifty == list(SORTED)


@pytest.mark.parametrize("label", SORTED)
def test_each_class_holds_what_belongs_to_it_and_not_what_sounds_like_it(label):
    own, others = (names.split() for names in SORTED[label])
    assert len(own) >= 2
    assert others
    assert {name: class_of(name, GROUPS[name]) for name in own} == dict.fromkeys(own, label)
    assert label not in {class_of(name, GROUPS[name]) for name in others}


def test_no_name_is_in_two_classes():
    for name, group in GROUPS.items():
        holding = [label for label, rule in icon_classes().items() if rule.holds(name, group)]
        assert len(holding) <= 1, (name, holding)


def test_every_pattern_of_the_table_stands_for_some_emoji():
    for label, rule in icon_classes().items():
        names = [name for name, group in GROUPS.items() if not rule.group or group == rule.group]
        taken = {
            name for name in names if any(fnmatchcase(name, one) for one in rule.names.split())
        }
        for pattern in rule.names.split():
            assert any(fnmatchcase(name, pattern) for name in names), (label, pattern)
        for pattern in rule.but.split():
            assert any(fnmatchcase(name, pattern) for name in taken), (label, pattern)


def test_no_pattern_of_the_table_is_written_twice():
    patterns = [pattern for rule in icon_classes().values() for pattern in rule.names.split()]
    assert len(patterns) == len(set(patterns))


def test_a_group_tells_apart_what_names_do_not():
    assert class_of("new_moon_face", "Travel & Places") == "Moon"
    assert class_of("clown_face", "Smileys & Emotion") == "Emotion Face"
    assert class_of("clown_face", "Travel & Places") is None
    assert class_of("guard", "Objects") is None


# building


def test_icons_are_drawn_into_class_folders_with_a_list(run, source, out):
    told = build(run, source, out, *two())
    assert told.status == 0, told.err
    labels = {
        "airplane": "Airplane",
        "man_biking": "Biking",
        "telephone": "Phone",
        "evergreen_tree": "Tree",
        "flag_norway": "Flag",
        "one_o_clock": "Clock",
        "man_s_shoe": "Footwear",
    }
    expected = [
        {"path": f"{label}/{name}.{style}.png", "label": label, "style": style, "subclass": name}
        for name, label in labels.items()
        for style in ("noto", "twemoji")
    ]
    assert rows_of(out) == sorted(expected, key=lambda row: row["path"])
    assert {path.relative_to(out).as_posix() for path in out.rglob("*.png")} == {
        row["path"] for row in expected
    }
    for row in expected:
        with Image.open(out / row["path"]) as image:
            assert (image.mode, image.size, image.format) == ("RGB", (32, 32), "PNG")
    assert "14 icons of 7 classes" in told.out
    assert "noto 7, twemoji 7." in told.out
    assert "No two styles share a drawing." in told.out


def test_each_file_shows_the_drawing_of_its_style(run, source, out):
    body = rectangle("#0000ff", 0, 0, 8, 16)
    write_archive(source, PACKAGES["noto"], usual_style("noto", airplane=body))
    assert build(run, source, out, *two()).status == 0
    with Image.open(out / "Airplane" / "airplane.noto.png") as image:
        shown = np.asarray(image)
    assert np.all(shown[:, :16] == (0, 0, 255))
    assert np.all(shown[:, 16:] == 255)
    with Image.open(out / "Airplane" / "airplane.twemoji.png") as image:
        assert not np.array_equal(np.asarray(image), shown)


@pytest.mark.parametrize("size", [18, 50, 1024])
def test_icons_have_the_size_that_is_asked_for(run, tmp_path, out, size):
    source = write_packages(tmp_path / "few", emoji={"🌲": "evergreen_tree"})
    assert build(run, source, out, *two(), "--size", size).status == 0
    assert len(rows_of(out)) == 2
    for row in rows_of(out):
        with Image.open(out / row["path"]) as image:
            assert image.size == (size, size)


def test_without_a_choice_all_eight_styles_are_drawn(run, tmp_path, out):
    source = write_packages(tmp_path / "all", list(PACKAGES))
    told = build(run, source, out)
    assert told.status == 0, told.err
    assert {row["style"] for row in rows_of(out)} == set(PACKAGES)
    assert len(rows_of(out)) == 8 * len(FEW)


def test_the_license_and_the_painters_of_each_style_are_written_beside_the_icons(run, source, out):
    write_archive(source, PACKAGES["noto"], usual_style("noto"), "1.2.3")
    told = build(run, source, out, *two())
    text = (out / "LICENSES.md").read_text(encoding="utf-8")
    (noto,) = (line for line in text.splitlines() if line.startswith("| noto "))
    for word in (
        "Noto Painters",
        "https://noto.example",
        "FREE-NOTO",
        "https://noto.example/license",
        "@iconify-json/noto 1.2.3",
    ):
        assert word in noto
    assert "FREE-TWEMOJI" in text
    assert "openmoji" not in text
    assert str(out / "LICENSES.md") in told.out


def test_a_license_without_addresses_is_named_all_the_same(run, source, out):
    files = usual_style("noto")
    files["info.json"] |= {"license": {"title": "As you like"}, "author": {"name": "Someone"}}
    write_archive(source, PACKAGES["noto"], files)
    assert build(run, source, out, *two()).status == 0
    text = (out / "LICENSES.md").read_text(encoding="utf-8")
    assert "| noto | Someone | As you like | @iconify-json/noto 1.0.0 |" in text.splitlines()


def test_archives_and_installed_packages_give_the_same_icons(run, tmp_path, source):
    installed = tmp_path / "project"
    write_installed(installed / "node_modules", NAMES_OF_EMOJI, names_files())
    for style in ("noto", "twemoji"):
        write_installed(installed / "node_modules", PACKAGES[style], usual_style(style))
    made = []
    for place, own in enumerate((source, installed, installed / "node_modules")):
        assert build(run, own, tmp_path / str(place), *two()).status == 0
        made.append(contents(tmp_path / str(place)))
    assert made[0] == made[1] == made[2]
    # beside the icons their list, the licenses and what was asked for
    assert len(made[0]) == 2 * len(FEW) + 3


def test_the_list_is_read_with_its_labels_styles_and_subclasses(run, source, out):
    assert build(run, source, out, *two()).status == 0
    images = find_images(out / "icons.csv")
    assert len(images) == 14
    (one,) = (each for each in images if each.name == "Biking/man_biking.twemoji.png")
    assert (one.label, one.style, one.subclass) == ("Biking", "twemoji", "man_biking")
    assert all(each.path.is_file() for each in images)


def test_a_style_that_does_not_tell_characters_is_read_by_the_names_of_the_others(run, source, out):
    icons = {"aeroplane": circle("#104010"), "one-oclock": circle("#401010")}
    files = usual_style("noto")
    files["chars.json"]["2708"] = "aeroplane"
    files["icons.json"]["icons"]["aeroplane"] = {"body": circle("#101040")}
    write_archive(source, PACKAGES["noto"], files)
    write_archive(source, PACKAGES["emojione"], style_files("emojione", icons))
    told = build(run, source, out, *two("noto", "emojione"))
    assert told.status == 0, told.err
    own = {row["subclass"] for row in rows_of(out) if row["style"] == "emojione"}
    assert own == {"airplane", "one_o_clock"}


def test_an_alias_that_is_flipped_is_drawn_flipped(run, source, out):
    emoji = {"👈": "backhand_index_pointing_left", "👉": "backhand_index_pointing_right"}
    uneven = rectangle("#a02020", 1, 2, 4, 7)
    aliases = {
        "backhand-index-pointing-right": {
            "parent": "backhand-index-pointing-left",
            "hFlip": True,
        }
    }
    icons = {"backhand-index-pointing-left": uneven}
    write_archive(source, NAMES_OF_EMOJI, names_files(emoji))
    write_archive(source, PACKAGES["noto"], style_files("noto", icons, aliases=aliases))
    write_archive(source, PACKAGES["twemoji"], usual_style("twemoji", emoji))
    assert build(run, source, out, *two()).status == 0
    shown = []
    for side in ("left", "right"):
        with Image.open(out / "Hand" / f"backhand_index_pointing_{side}.noto.png") as image:
            shown.append(np.asarray(image))
    assert not np.array_equal(*shown)
    assert np.array_equal(shown[0], np.flip(shown[1], axis=1))


def test_a_style_that_is_named_twice_counts_once(run, source, out):
    told = build(run, source, out, *two("noto", "twemoji", "noto"))
    assert told.status == 0, told.err
    assert "No two styles share a drawing." in told.out
    text = (out / "LICENSES.md").read_text(encoding="utf-8")
    assert text.count("@iconify-json/noto ") == 1


# the same command again


def test_the_same_command_again_changes_nothing(run, source, out):
    first = build(run, source, out, *two())
    before = contents(out)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.png")}
    again = build(run, source, out, *two())
    assert (again.status, again.out) == (0, first.out)
    assert contents(out) == before
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.png")} == times


def test_the_same_command_again_mends_files_that_were_damaged_or_removed(run, tmp_path, out):
    source = write_packages(tmp_path / "many", emoji=MANY)
    assert build(run, source, out, *two()).status == 0
    before = contents(out)
    paths = sorted(out.rglob("*.png"))
    paths.pop().unlink()
    paths.pop().write_bytes(b"")
    paths.pop().write_bytes(before["icons.csv"])
    Image.new("RGB", (16, 16)).save(paths.pop())
    Image.new("L", (32, 32)).save(paths.pop())
    start = 0
    # each byte of a picture, spread over the pictures that there are
    while start < max(path.stat().st_size for path in paths):
        for place, path in enumerate(paths, start):
            data = bytearray(before[path.relative_to(out).as_posix()])
            if place < len(data):
                data[place] ^= 0x55
                path.write_bytes(data)
        told = build(run, source, out, *two())
        assert told.status == 0, told.err
        assert contents(out) == before
        start += len(paths)


def test_a_damaged_list_is_written_anew(run, source, out):
    assert build(run, source, out, *two()).status == 0
    before = contents(out)
    (out / "icons.csv").write_text("path,label,style,subclass\n", encoding="utf-8")
    licenses = out / "LICENSES.md"
    licenses.write_text(licenses.read_text("utf-8").splitlines()[0], encoding="utf-8")
    assert build(run, source, out, *two()).status == 0
    assert contents(out) == before


def test_a_build_that_was_stopped_goes_on_with_the_same_command(
    run, source, out, tmp_path, monkeypatch
):
    replace, done = os.replace, []

    def stopped(temporary, path):
        if str(path).endswith(".png"):
            done.append(path)
            if len(done) == 5:
                raise KeyboardInterrupt
        replace(temporary, path)

    monkeypatch.setattr(os, "replace", stopped)
    told = build(run, source, out, *two())
    assert told.status == 130
    assert "run the same command again to resume" in told.err
    assert sorted(out.rglob("*.png")) == sorted(done[:4])
    times = [path.stat().st_mtime_ns for path in done[:4]]
    told = build(run, source, out, *two())
    assert told.status == 0, told.err
    assert [path.stat().st_mtime_ns for path in done[:4]] == times
    assert build(run, source, tmp_path / "whole", *two()).status == 0
    assert contents(out) == contents(tmp_path / "whole")


def test_what_an_earlier_build_left_is_removed(run, tmp_path, out):
    source = write_packages(tmp_path / "packages", ["noto", "twemoji"])
    # a class that only an older package has
    emoji = {**FEW, "🐟": "fish"}
    write_archive(source, NAMES_OF_EMOJI, names_files(emoji))
    write_archive(source, PACKAGES["twemoji"], usual_style("twemoji", emoji))
    assert build(run, source, out, *two()).status == 0
    assert (out / "Marine Animal" / "fish.twemoji.png").is_file()
    write_archive(source, PACKAGES["twemoji"], usual_style("twemoji"))
    killed = out / "Tree" / ".evergreen_tree.noto.png.999999999.tmp"
    killed.write_bytes(b"half")
    notes = out / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    assert build(run, source, out, *two()).status == 0
    assert notes.read_text(encoding="utf-8") == "mine"
    notes.unlink()
    assert build(run, source, tmp_path / "fresh", *two()).status == 0
    assert contents(out) == contents(tmp_path / "fresh")
    # an empty folder would be read as a class
    assert not (out / "Marine Animal").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (["--size", 20], "size: 32, now 20"),
        (["--style", "openmoji"], "styles: noto, twemoji, now noto, twemoji, openmoji"),
    ],
)
def test_icons_of_other_settings_are_not_replaced(run, tmp_path, out, changed, words):
    source = write_packages(tmp_path / "three", ["noto", "twemoji", "openmoji"])
    assert build(run, source, out, *two()).status == 0
    before = contents(out)
    assert_rejected(build(run, source, out, *two(), *changed), "other icons", words, "--out")
    assert contents(out) == before


# duplicates


@pytest.mark.parametrize("size", [50, 200])
def test_which_drawings_are_shared_does_not_depend_on_the_size(run, source, out, tmp_path, size):
    # lines a little thinner: by their pixels two drawings at 32 px, and one at these sizes
    thick, thin = (
        f'<circle cx="8" cy="8" r="6" fill="none" stroke="#206020" stroke-width="{width}"/>'
        for width in (1.0, 0.95)
    )
    write_archive(source, PACKAGES["noto"], usual_style("noto", evergreen_tree=thick))
    write_archive(source, PACKAGES["twemoji"], usual_style("twemoji", evergreen_tree=thin))
    told = [
        build(run, source, tmp_path / str(own), *two(), "--size", own).out for own in (32, size)
    ]
    assert told[0].splitlines()[1:-1] == told[1].splitlines()[1:-1]


def build_shared(run, source, out, bodies):
    """Build icons in which one drawing is given for each of several styles."""
    for style, body in bodies.items():
        write_archive(source, PACKAGES[style], usual_style(style, evergreen_tree=body))
    told = build(run, source, out, *two(*bodies))
    assert told.status == 0, told.err
    kept = [row["style"] for row in rows_of(out) if row["subclass"] == "evergreen_tree"]
    shown = [path.name.split(".")[1] for path in (out / "Tree").iterdir()]
    assert sorted(shown) == sorted(kept)
    return told, kept


TREE = circle("#206020", 8, 6, 5) + rectangle("#804010", 7, 11, 2, 5)
UNLIKE = f'<path fill="#202080" d="M0 0h16L0 16z"/>{circle("#c00000", 12, 12, 3)}'


@pytest.mark.parametrize(
    "other",
    [
        TREE,
        TREE.replace("#206020", "#226422").replace("#804010", "#7e3e12"),
        f'<g transform="translate(.08 .08) scale(.99)">{TREE}</g>',
        TREE.replace("<circle", '<circle stroke="none"'),
    ],
    ids=["same", "recoloured", "scaled", "rewritten"],
)
def test_a_drawing_that_two_styles_share_is_kept_in_the_first(run, source, out, other):
    told, kept = build_shared(run, source, out, {"noto": TREE, "twemoji": other})
    assert kept == ["noto"]
    assert (
        "Drawings shared by two styles, kept in one style only: 1 in noto (not twemoji)."
        in told.out
    )
    assert "13 icons" in told.out
    assert len(rows_of(out)) == 13


@pytest.mark.parametrize(
    "other",
    [
        circle("#206020", 8, 6, 5),
        TREE.replace("#206020", "#c08020"),
        f'<g transform="translate(4 4) scale(.5)">{TREE}</g>',
        f'<g transform="rotate(90 8 8)">{TREE}</g>',
    ],
    ids=["no trunk", "autumn", "half as large", "fallen"],
)
def test_clearly_different_drawings_of_one_emoji_are_all_kept(run, source, out, other):
    told, kept = build_shared(run, source, out, {"noto": TREE, "twemoji": other})
    assert sorted(kept) == ["noto", "twemoji"]
    assert "No two styles share a drawing." in told.out


def test_a_drawing_that_three_styles_share_is_kept_once(run, source, out):
    told, kept = build_shared(
        run, source, out, {"noto": TREE, "emojione": TREE, "twemoji": TREE, "openmoji": UNLIKE}
    )
    assert sorted(kept) == ["noto", "openmoji"]
    assert "1 in noto (not emojione)" in told.out
    assert "1 in noto (not twemoji)" in told.out


def test_shared_drawings_are_counted_by_pairs_of_styles(run, source, out):
    same = {name: drawing("noto", place) for place, name in enumerate(FEW.values()) if place < 4}
    write_archive(source, PACKAGES["twemoji"], usual_style("twemoji", **same))
    write_archive(source, PACKAGES["openmoji"], usual_style("openmoji", man_s_shoe=TREE))
    write_archive(source, PACKAGES["fluent"], usual_style("fluent", man_s_shoe=TREE))
    told = build(run, source, out, *two("noto", "twemoji", "openmoji", "fluent"))
    assert (
        "kept in one style only: 4 in noto (not twemoji), 1 in openmoji (not fluent)." in told.out
    )
    counts = {style: 0 for style in ("noto", "twemoji", "openmoji", "fluent")}
    for row in rows_of(out):
        counts[row["style"]] += 1
    assert counts == {"noto": 7, "twemoji": 3, "openmoji": 7, "fluent": 6}


# npm

FIND = """
name="$2"
file=$(echo "$name" | sed 's,@,,; s,/,-,')
while [ "$1" != --pack-destination ]; do shift; done
"""
COPY = f"""{FIND}
echo "$name" >> "{{log}}"
cp "{{source}}/$file"-[0-9]*.tgz "$2"
"""


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Have a shell script as the npm that is found."""

    def use(script):
        folder = write_npm(tmp_path / "bin", script)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin{os.pathsep}/usr/bin")

    return use


def after_fetching(told):
    """What is said when the names of the packages that came have been told."""
    last = told.err.splitlines()[-1]
    assert set(told.err.splitlines()[:-1]) <= {NAMES_OF_EMOJI, *PACKAGES.values()}
    return Result(told.status, told.out, last)


def test_packages_are_fetched_with_npm_once(run, source, out, tmp_path, npm):
    log = tmp_path / "log"
    npm(COPY.format(log=log, source=source))
    told = run("structure", "icons", "build", "--out", out, *two())
    assert told.status == 0, told.err
    assert "npm" in told.out.splitlines()[0]
    asked = [NAMES_OF_EMOJI, PACKAGES["noto"], PACKAGES["twemoji"]]
    assert log.read_text(encoding="utf-8").split() == asked
    assert len(list((tmp_path / "icons.npm").glob("*.tgz"))) == 3
    before = contents(out)
    told = run("structure", "icons", "build", "--out", out, *two("noto", "twemoji"))
    assert told.status == 0, told.err
    assert log.read_text(encoding="utf-8").split() == asked
    assert contents(out) == before
    assert build(run, source, tmp_path / "offline", *two()).status == 0
    assert contents(tmp_path / "offline") == before


def test_icons_may_go_into_the_current_folder(run, source, tmp_path, npm, monkeypatch):
    npm(COPY.format(log=tmp_path / "log", source=source))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    told = run("structure", "icons", "build", "--out", ".", *two())
    assert told.status == 0, told.err
    assert len(rows_of(tmp_path / "here")) == 14


def test_a_fetch_that_was_stopped_half_way_goes_on_with_the_same_command(
    run, source, out, tmp_path, npm
):
    whole = next(source.glob("iconify-json-noto-*.tgz")).read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    copy = COPY.format(log=tmp_path / "log", source=source)
    npm(
        f'{copy}\ncase "$name" in *noto) cat "{tmp_path}/half" > "$2/$file-1.0.0.tgz"; exit 1; esac'
    )
    told = run("structure", "icons", "build", "--out", out, *two())
    assert_rejected(after_fetching(told), "Cannot download @iconify-json/noto")
    npm(copy)
    told = run("structure", "icons", "build", "--out", out, *two())
    assert told.status == 0, told.err
    assert len(rows_of(out)) == 14


def test_no_npm_is_one_sentence(run, out, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    told = run("structure", "icons", "build", "--out", out, *two())
    assert_rejected(told, "npm", "install", "--from")
    assert not out.exists()


# as npm says it, unless it is to be silent
OFFLINE = """
case "$*" in *--silent*) exit 1;; esac
echo "npm error code ENOTFOUND" >&2
echo "npm error network request failed, reason: getaddrinfo ENOTFOUND registry" >&2
echo "npm error network In most cases you are behind a proxy or have bad settings." >&2
echo "npm error A complete log of this run can be found in: /home/me/.npm/_logs/1.log" >&2
exit 1
"""


@pytest.mark.parametrize(
    ("script", "word"),
    [
        (OFFLINE, "ENOTFOUND"),
        ("echo 'getaddrinfo EAI_AGAIN' >&2; exit 1", "EAI_AGAIN"),
        ("echo 'a reason, on standard output.'; exit 1", "a reason, on standard output)"),
        ("exit 3", "3"),
    ],
    ids=["offline", "one line", "standard output", "silent"],
)
def test_an_npm_that_fails_is_one_sentence_with_its_reason(run, out, npm, script, word):
    npm(script)
    told = run("structure", "icons", "build", "--out", out, *two())
    assert_rejected(told, "Cannot download unicode-emoji-json", word, "--from")
    assert not out.exists()


def test_an_npm_that_does_not_prediction_is_one_sentence(run, out, npm, monkeypatch):
    monkeypatch.setattr(npm_packages, "PATIENCE", 0.2)
    npm("exec sleep 20")
    told = run("structure", "icons", "build", "--out", out, *two())
    assert_rejected(told, "Cannot download unicode-emoji-json", "no reply", "--from")


def test_an_npm_that_brings_nothing_is_one_sentence(run, out, npm):
    npm("exit 0")
    told = run("structure", "icons", "build", "--out", out, *two())
    assert_rejected(after_fetching(told), "unicode-emoji-json")


def test_a_file_where_packages_go_is_one_sentence(run, source, out, tmp_path, npm):
    npm(COPY.format(log=tmp_path / "log", source=source))
    (tmp_path / "icons.npm").write_text("", encoding="utf-8")
    told = run("structure", "icons", "build", "--out", out, *two())
    assert_rejected(told, "icons.npm")


# bad input


def changed_icons(**parts):
    files = usual_style("noto")
    files["icons.json"] |= parts
    return files


def changed_icon(**parts):
    files = usual_style("noto")
    files["icons.json"]["icons"]["evergreen-tree"] |= parts
    return files


def with_alias(alias):
    files = usual_style("noto")
    del files["icons.json"]["icons"]["evergreen-tree"]
    files["icons.json"]["aliases"] = {"evergreen-tree": alias}
    return files


def without(file):
    return {name: own for name, own in usual_style("noto").items() if name != file}


CHANGED = {
    "no icons file": without("icons.json"),
    "icons no JSON": usual_style("noto") | {"icons.json": "module.exports = {}"},
    "icons no text": usual_style("noto") | {"icons.json": b"\xff\xfe{}"},
    "icons a list": usual_style("noto") | {"icons.json": []},
    "icons elsewhere": usual_style("noto") | {"icons.json": {"glyphs": {}}},
    "icons listed": changed_icons(icons=["airplane"]),
    "no body": changed_icons(icons={"evergreen-tree": {"svg": "<path/>"}}),
    "body a list": changed_icon(body=["path"]),
    "icon a text": changed_icons(icons={"evergreen-tree": "<path/>"}),
    "aliases a list": changed_icons(aliases=["evergreen-tree"]),
    "width a word": changed_icon(width="wide"),
    "width nothing": changed_icon(width=None),
    "left a list": changed_icons(left=[0]),
    "alias to nowhere": with_alias({"parent": "nothing"}),
    "alias without parent": with_alias({"of": "airplane"}),
    "alias a text": with_alias("airplane"),
    "alias of itself": with_alias({"parent": "evergreen-tree"}),
    "alias of a list": with_alias({"parent": ["airplane"]}),
    "turn a word": with_alias({"parent": "airplane", "rotate": "90deg"}),
    "turn a list": with_alias({"parent": "airplane", "rotate": [1]}),
    "characters a list": usual_style("noto") | {"chars.json": ["1f332"]},
    "characters nothing": usual_style("noto") | {"chars.json": "null"},
    "characters no numbers": usual_style("noto") | {"chars.json": {"🌲": "evergreen-tree"}},
    "characters of lists": usual_style("noto") | {"chars.json": {"1f332": ["evergreen-tree"]}},
    "characters no JSON": usual_style("noto") | {"chars.json": "{"},
    "no info": without("info.json"),
    "info a list": usual_style("noto") | {"info.json": []},
    "no license": usual_style("noto") | {"info.json": {"author": {"name": "me"}}},
    "license a word": usual_style("noto") | {"info.json": {"license": "MIT", "author": {}}},
    "no author": usual_style("noto") | {"info.json": {"license": {"title": "MIT"}}},
}


@pytest.mark.parametrize("files", CHANGED.values(), ids=CHANGED)
def test_a_package_whose_format_changed_is_one_sentence(run, source, out, files):
    (source / "iconify-json-noto-1.0.0.tgz").unlink()
    write_archive(source, PACKAGES["noto"], files, "7.8.9")
    told = build(run, source, out, *two())
    assert_rejected(
        told,
        "@iconify-json/noto 7.8.9",
        "not supported",
        "older version",
        "--from",
    )
    assert not out.exists()


TREES = {"slug": "evergreen_tree", "group": "Animals & Nature"}
CHANGED_NAMES = {
    "another file": {"emoji.json": {}},
    "no JSON": {"data-by-emoji.json": "<html>"},
    "a list": {"data-by-emoji.json": [TREES]},
    "empty": {"data-by-emoji.json": {}},
    "no name": {"data-by-emoji.json": {"🌲": {"group": "Animals & Nature"}}},
    "no group": {"data-by-emoji.json": {"🌲": {"slug": "evergreen_tree"}}},
    "only names": {"data-by-emoji.json": {"🌲": "evergreen_tree"}},
    "a number": {"data-by-emoji.json": {"🌲": TREES | {"slug": 7}}},
    "other names": {"data-by-emoji.json": {"🌲": TREES | {"slug": "Evergreen Tree"}}},
    "paths": {"data-by-emoji.json": {"🌲": TREES | {"slug": "../../evergreen_tree"}}},
}


@pytest.mark.parametrize("files", CHANGED_NAMES.values(), ids=CHANGED_NAMES)
def test_names_whose_format_changed_are_one_sentence(run, source, out, files):
    (source / "unicode-emoji-json-1.0.0.tgz").unlink()
    write_archive(source, NAMES_OF_EMOJI, files, "7.8.9")
    told = build(run, source, out, *two())
    assert_rejected(told, "unicode-emoji-json 7.8.9", "not supported", "--from")
    assert not out.exists()


def test_packages_without_an_icon_of_any_class_are_one_sentence(run, source, out):
    for style in ("noto", "twemoji"):
        write_archive(source, PACKAGES[style], style_files(style, {"other": TREE}))
    assert_rejected(build(run, source, out, *two()), "no icon")


BROKEN = "<path d='M0 0' <<"


@pytest.mark.parametrize("body", [BROKEN, "", '<path d="none"/>'], ids=["no SVG", "empty", "blank"])
def test_few_broken_drawings_are_left_out_and_named(run, tmp_path, out, body):
    source = write_packages(tmp_path / "many", emoji=MANY)
    write_archive(source, PACKAGES["twemoji"], usual_style("twemoji", MANY, black_bird=body))
    told = build(run, source, out, *two())
    assert told.status == 0, told.err
    assert "Skipped as broken: twemoji/black-bird." in told.out
    paths = {row["path"] for row in rows_of(out)}
    assert "Bird/black_bird.noto.png" in paths
    assert "Bird/black_bird.twemoji.png" not in paths
    assert not (out / "Bird" / "black_bird.twemoji.png").exists()
    # of more than a hundred, one may be
    assert len(paths) > 100


def test_many_broken_drawings_are_rejected(run, tmp_path, out):
    source = write_packages(tmp_path / "many", emoji=MANY)
    files = usual_style("twemoji", MANY, black_bird=BROKEN, rose=BROKEN)
    write_archive(source, PACKAGES["twemoji"], files)
    assert_rejected(build(run, source, out, *two()), "twemoji", "rose", "1 %", "download")
    assert not out.exists()


def test_a_damaged_archive_is_one_sentence(run, source, out):
    path = source / "iconify-json-twemoji-1.0.0.tgz"
    whole = path.read_bytes()
    for damaged in (b"", b"no archive", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        assert_rejected(build(run, source, out, *two()), path.name, "damaged")
    assert not out.exists()


def test_a_damaged_archive_does_not_hide_a_whole_one(run, source, out):
    (source / "iconify-json-noto-9.9.9.tgz").write_bytes(b"half")
    told = build(run, source, out, *two())
    assert told.status == 0, told.err
    assert "@iconify-json/noto 1.0.0" in (out / "LICENSES.md").read_text(encoding="utf-8")


def test_an_archive_instead_of_its_folder_is_one_sentence(run, source, out):
    archive = next(source.glob("*.tgz"))
    assert_rejected(build(run, archive, out), archive.name, "is a file", "the folder")


@pytest.mark.parametrize("name", [NAMES_OF_EMOJI, PACKAGES["twemoji"]])
def test_a_missing_package_is_one_sentence(run, source, out, name):
    next(source.glob(f"{name.removeprefix('@').replace('/', '-')}-*.tgz")).unlink()
    told = build(run, source, out, *two())
    assert_rejected(told, str(source), f"npm pack {name}")
    assert not out.exists()


def test_a_folder_of_packages_that_is_not_there_is_one_sentence(run, tmp_path, out):
    assert_rejected(build(run, tmp_path / "nowhere", out, *two()), "nowhere")
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert_rejected(build(run, tmp_path / "file", out, *two()), "file")


def test_an_unknown_style_is_one_sentence_with_the_nearest(run, source, out):
    assert_rejected(build(run, source, out, *two("noto", "twemojy")), "'twemojy'", "'twemoji'")
    assert_rejected(build(run, source, out, *two("noto", "")), "''")


def test_one_style_is_not_enough(run, source, out):
    assert_rejected(build(run, source, out, *two("noto")), "two styles")
    assert_rejected(build(run, source, out, *two("noto", "noto")), "two styles")
    assert not out.exists()


@pytest.mark.parametrize("size", ["17", "0", "-32", "1025", "large", "32.5"])
def test_a_size_out_of_range_is_one_sentence(run, source, out, size):
    assert_rejected(build(run, source, out, *two(), "--size", size), "size")
    assert not out.exists()


def test_a_file_as_out_is_one_sentence(run, source, tmp_path, out):
    out.write_text("mine", encoding="utf-8")
    assert_rejected(build(run, source, out, *two()), str(out), "file")
    assert out.read_text(encoding="utf-8") == "mine"
    assert_rejected(build(run, source, out / "below", *two()), str(out))
    assert_rejected(build(run, source, "", *two()), "folder")


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": "mine"},
        {"Flag/mine.png": "mine"},
        # a list of somebody else's, by chance of the same name
        {"icons.csv": "file,color\nFlag/mine.png,red\n", "Flag/mine.png": "mine"},
        {
            "icons.csv": "path,label,style,subclass\nFlag/mine.png,Flag,x,y\n",
            "Flag/mine.png": "mine",
        },
    ],
    ids=["a file", "a class folder", "another list", "another list of the same columns"],
)
def test_a_folder_that_holds_something_else_is_rejected_and_left_as_it_is(run, source, out, files):
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
    before = contents(out)
    assert_rejected(build(run, source, out, *two()), str(out), "other files")
    assert contents(out) == before


def test_an_empty_folder_is_taken(run, source, out):
    out.mkdir()
    assert build(run, source, out, *two()).status == 0
    shutil.rmtree(out)
    assert build(run, source, out / "deep" / "down", *two()).status == 0


def test_images_of_others_among_icons_are_kept(run, tmp_path, out):
    source = write_packages(tmp_path / "packages", ["noto", "twemoji"])
    assert build(run, source, out, *two("noto", "twemoji")).status == 0
    mine = out / "Flag" / "mine.png"
    mine.parent.mkdir(exist_ok=True)
    mine.write_bytes(b"mine")
    # the next package has fewer
    names = dict(list(FEW.items())[:3])
    write_archive(source, PACKAGES["twemoji"], usual_style("twemoji", names), version="2.0.0")
    assert build(run, source, out, *two("noto", "twemoji")).status == 0
    assert mine.read_bytes() == b"mine"
    assert len(list(out.rglob("*.twemoji.png"))) == 3 and len(list(out.rglob("*.noto.png"))) == 7
