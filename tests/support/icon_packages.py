"""Small npm packages such as icons come from, with drawings made up here: nothing is fetched."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NAMES_OF_EMOJI = "unicode-emoji-json"
PACKAGES = {
    "noto": "@iconify-json/noto",
    "twemoji": "@iconify-json/twemoji",
    "openmoji": "@iconify-json/openmoji",
    "fluent-flat": "@iconify-json/fluent-emoji-flat",
    "fluent": "@iconify-json/fluent-emoji",
    "emojione": "@iconify-json/emojione",
    "noto-v1": "@iconify-json/noto-v1",
    "emojione-v1": "@iconify-json/emojione-v1",
}

NAMES = {
    "Smileys & Emotion": """
        grinning_face rolling_on_the_floor_laughing face_with_tears_of_joy smiling_face_with_hearts
        smiling_face_with_heart_eyes star_struck face_blowing_a_kiss kissing_face money_mouth_face
        smiling_face_with_open_hands face_in_clouds head_shaking_horizontally
        head_shaking_vertically exploding_head cowboy_hat_face skull clown_face ghost robot
        grinning_cat grinning_cat_with_smiling_eyes cat_with_tears_of_joy
        smiling_cat_with_heart_eyes cat_with_wry_smile weary_cat see_no_evil_monkey
        hear_no_evil_monkey speak_no_evil_monkey love_letter heart_with_arrow heart_with_ribbon
        sparkling_heart revolving_hearts two_hearts heart_decoration broken_heart heart_on_fire
        red_heart black_heart kiss_mark hundred_points collision dizzy thought_balloon zzz
        """,
    "People & Body": """
        waving_hand raised_back_of_hand hand_with_fingers_splayed raised_hand vulcan_salute ok_hand
        pinched_fingers pinching_hand crossed_fingers hand_with_index_finger_and_thumb_crossed
        love_you_gesture sign_of_the_horns backhand_index_pointing_left
        backhand_index_pointing_right middle_finger index_pointing_up index_pointing_at_the_viewer
        thumbs_up thumbs_down raised_fist oncoming_fist clapping_hands heart_hands open_hands
        palms_up_together handshake folded_hands writing_hand selfie flexed_biceps foot ear
        anatomical_heart baby person man woman person_tipping_hand man_tipping_hand
        woman_tipping_hand person_raising_hand man_raising_hand woman_raising_hand health_worker
        man_health_worker student woman_student teacher man_teacher judge woman_judge farmer
        man_farmer cook woman_cook mechanic man_mechanic factory_worker woman_factory_worker
        office_worker man_office_worker scientist woman_scientist technologist man_technologist
        singer woman_singer artist man_artist pilot woman_pilot astronaut man_astronaut firefighter
        woman_firefighter police_officer man_police_officer detective woman_detective guard
        man_guard ninja construction_worker woman_construction_worker person_with_crown prince
        superhero person_walking people_with_bunny_ears men_with_bunny_ears women_with_bunny_ears
        person_climbing horse_racing person_golfing man_golfing woman_golfing person_surfing
        man_surfing woman_surfing person_rowing_boat person_swimming person_bouncing_ball
        person_biking man_biking woman_biking person_mountain_biking woman_mountain_biking
        person_cartwheeling man_cartwheeling woman_cartwheeling people_wrestling men_wrestling
        women_wrestling person_playing_water_polo man_playing_water_polo
        woman_playing_water_polo person_playing_handball person_juggling
        person_in_lotus_position people_holding_hands women_holding_hands
        woman_and_man_holding_hands men_holding_hands kiss kiss_woman_man kiss_man_man
        kiss_woman_woman couple_with_heart couple_with_heart_woman_man family
        family_man_woman_boy family_adult_adult_child people_hugging footprints
        """,
    "Animals & Nature": """
        monkey_face monkey gorilla orangutan dog_face dog cat_face cat black_cat lion tiger_face
        tiger leopard horse_face mouse_face bat turkey chicken rooster hatching_chick baby_chick
        front_facing_baby_chick bird penguin dove eagle duck swan owl dodo feather flamingo peacock
        parrot wing black_bird goose phoenix turtle spouting_whale whale dolphin orca seal fish
        tropical_fish blowfish shark octopus spiral_shell coral jellyfish crab lobster shrimp squid
        oyster snail bouquet cherry_blossom white_flower lotus rosette rose wilted_flower hibiscus
        sunflower blossom tulip hyacinth potted_plant evergreen_tree deciduous_tree palm_tree
        cactus four_leaf_clover leafless_tree
        """,
    "Food & Drink": """
        poultry_leg moon_cake fried_shrimp fish_cake_with_swirl baby_bottle glass_of_milk
        hot_beverage teapot teacup_without_handle sake bottle_with_popping_cork wine_glass
        cocktail_glass tropical_drink beer_mug clinking_beer_mugs clinking_glasses tumbler_glass
        pouring_liquid cup_with_straw bubble_tea beverage_box mate fork_and_knife kitchen_knife
        """,
    "Travel & Places": """
        snow_capped_mountain mountain volcano mount_fuji beach_with_umbrella stadium
        classical_building building_construction hut houses derelict_house house house_with_garden
        office_building japanese_post_office post_office hospital bank hotel love_hotel
        convenience_store school department_store factory japanese_castle castle wedding church
        mosque hindu_temple synagogue kaaba tent sunrise_over_mountains locomotive railway_car
        high_speed_train bullet_train train metro light_rail station tram monorail mountain_railway
        tram_car bus oncoming_bus trolleybus minibus ambulance fire_engine police_car
        oncoming_police_car taxi oncoming_taxi automobile oncoming_automobile
        sport_utility_vehicle pickup_truck delivery_truck articulated_lorry tractor racing_car
        motorcycle motor_scooter auto_rickshaw bicycle roller_skate bus_stop railway_track
        police_car_light sailboat canoe speedboat passenger_ship ferry motor_boat ship airplane
        small_airplane airplane_departure airplane_arrival helicopter suspension_railway
        hourglass_done watch alarm_clock stopwatch timer_clock mantelpiece_clock twelve_o_clock
        twelve_thirty one_o_clock one_thirty new_moon full_moon crescent_moon new_moon_face
        first_quarter_moon_face full_moon_face sun_with_face star glowing_star shooting_star cloud
        sun_behind_cloud cloud_with_lightning_and_rain sun_behind_small_cloud
        sun_behind_rain_cloud cloud_with_snow fog wind_face closed_umbrella umbrella
        umbrella_with_rain_drops umbrella_on_ground
        """,
    "Activities": """
        christmas_tree tanabata_tree red_envelope military_medal trophy sports_medal 1st_place_medal
        3rd_place_medal soccer_ball baseball softball basketball volleyball american_football
        rugby_football tennis flying_disc bowling boxing_glove flag_in_hole ice_skate
        pool_8_ball crystal_ball heart_suit flower_playing_cards mirror_ball
        """,
    "Objects": """
        folding_hand_fan thong_sandal man_s_shoe running_shoe hiking_boot flat_shoe
        high_heeled_shoe woman_s_sandal ballet_shoes woman_s_boot socks crown woman_s_hat top_hat
        graduation_cap billed_cap military_helmet rescue_worker_s_helmet mobile_phone
        mobile_phone_with_arrow telephone telephone_receiver pager computer_disk floppy_disk
        optical_disk dvd notebook_with_decorative_cover closed_book open_book green_book blue_book
        orange_book books notebook ledger bookmark coin money_bag yen_banknote dollar_banknote
        money_with_wings credit_card receipt envelope e_mail incoming_envelope envelope_with_arrow
        outbox_tray closed_mailbox_with_raised_flag closed_mailbox_with_lowered_flag
        open_mailbox_with_raised_flag open_mailbox_with_lowered_flag postbox pencil black_nib
        fountain_pen pen paintbrush crayon memo scissors locked unlocked locked_with_pen
        locked_with_key key axe pick dagger crossed_swords bow_and_arrow carpentry_saw razor
        """,
    "Symbols": """
        potable_water no_entry prohibited no_bicycles no_smoking no_littering non_potable_water
        no_pedestrians no_mobile_phones no_one_under_eighteen up_arrow left_right_arrow
        right_arrow_curving_left left_arrow_curving_right clockwise_vertical_arrows
        counterclockwise_arrows_button back_arrow soon_arrow star_of_david star_and_crescent
        dotted_six_pointed_star repeat_button vibration_mode mobile_phone_off
        japanese_symbol_for_beginner eight_spoked_asterisk eight_pointed_star sparkle
        keycap_number_sign keycap_asterisk keycap_0 keycap_1 keycap_2 keycap_3 keycap_4 keycap_5
        keycap_6 keycap_7 keycap_8 keycap_9 keycap_10 input_latin_letters input_numbers
        input_symbols ok_button japanese_here_button japanese_prohibited_button
        japanese_no_vacancy_button
        """,
    "Flags": """
        chequered_flag triangular_flag crossed_flags rainbow_flag pirate_flag flag_norway flag_japan
        flag_england
        """,
}
"""Unicode's names of emoji by its groups: those that the classes speak of, and some beside them."""

GROUPS = {name: group for group, names in NAMES.items() for name in names.split()}

Drawings = Mapping[str, Any]
Emoji = Mapping[str, str]

FEW: Emoji = {
    "✈️": "airplane",
    "🚴‍♂️": "man_biking",
    "☎️": "telephone",
    "🌲": "evergreen_tree",
    "🇳🇴": "flag_norway",
    "🕐": "one_o_clock",
    "👞": "man_s_shoe",
}
"""Characters and their names. Some hold the character that asks for a color drawing."""

MANY: Emoji = {
    chr(0x1F400 + place): name for place, name in enumerate(NAMES["Animals & Nature"].split())
}
"""More of them, with characters that stand for others in fact."""


def circle(color: str, x: float = 8, y: float = 8, radius: float = 6) -> str:
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{color}"/>'


def rectangle(color: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{color}"/>'


def color_of(place: int) -> str:
    """Dark enough on white, and another one for each of the first 200 places."""
    return f"#{40 * (place % 5):02x}{30 * (place // 5 % 5):02x}{25 * (place // 25):02x}"


def drawing(style: str, place: int) -> str:
    """A drawing of the emoji at this place; no two styles have the same shape."""
    own = color_of(place)
    return {
        "noto": circle(own),
        "twemoji": rectangle(own, 1, 6, 14, 4),
        "openmoji": rectangle(own, 6, 1, 4, 14),
        "fluent-flat": circle(own, 4, 4, 3),
        "fluent": rectangle(own, 9, 9, 6, 6),
        "emojione": circle(own, 4, 12, 3) + circle(own, 12, 4, 3),
        "noto-v1": f'<path fill="{own}" d="M0 0h16L0 16z"/>',
        "emojione-v1": f'<path fill="{own}" d="M1 15L8 1l7 14z"/>',
    }[style]


def code(characters: str) -> str:
    """As iconify writes the characters of an icon."""
    return "-".join(f"{ord(each):x}" for each in characters)


def names_files(emoji: Emoji = FEW) -> dict[str, Any]:
    """What unicode-emoji-json holds."""
    told = {
        characters: {"name": name.replace("_", " "), "slug": name, "group": GROUPS[name]}
        for characters, name in emoji.items()
    }
    return {"data-by-emoji.json": told}


def style_files(
    style: str,
    icons: Drawings,
    chars: Mapping[str, str] | None = None,
    aliases: Mapping[str, Any] | None = None,
    side: int = 16,
) -> dict[str, Any]:
    """What a package of iconify's holds. A drawing is an icon's body, or the icon."""
    whole = {
        name: {"body": own} if isinstance(own, str) else own for name, own in sorted(icons.items())
    }
    files: dict[str, Any] = {
        "icons.json": {
            "prefix": style,
            "icons": whole,
            "aliases": aliases or {},
            "width": side,
            "height": side,
        },
        "info.json": {
            "prefix": style,
            "name": style.title(),
            "total": len(whole),
            "author": {"name": f"{style.title()} Painters", "url": f"https://{style}.example"},
            "license": {
                "title": f"Free {style}",
                "spdx": f"FREE-{style.upper()}",
                "url": f"https://{style}.example/license",
            },
        },
    }
    if chars is not None:
        files["chars.json"] = chars
    return files


def usual_style(style: str, emoji: Emoji = FEW, **changed: str) -> dict[str, Any]:
    """The drawings of one style for each emoji; some may be given instead."""
    icons = {
        name: changed.get(name, drawing(style, place)) for place, name in enumerate(emoji.values())
    }
    return style_files(
        style,
        {name.replace("_", "-"): body for name, body in icons.items()},
        {code(characters): name.replace("_", "-") for characters, name in emoji.items()},
    )


def write_archive(
    folder: Path, name: str, files: Mapping[str, Any], version: str = "1.0.0"
) -> Path:
    """Write a package as npm pack does; a text or bytes are written as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for file, content in _with_description(name, files, version).items():
            member = tarfile.TarInfo(f"package/{file}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_installed(
    folder: Path, name: str, files: Mapping[str, Any], version: str = "1.0.0"
) -> Path:
    """Write a package as npm install does."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    for file, content in _with_description(name, files, version).items():
        (place / file).write_bytes(content)
    return place


def _with_description(name: str, files: Mapping[str, Any], version: str) -> dict[str, bytes]:
    whole = {"package.json": {"name": name, "version": version}, **files}
    return {
        file: content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
        for file, content in whole.items()
    }


def write_packages(
    folder: Path, styles: Sequence[str] = ("noto", "twemoji"), emoji: Emoji = FEW
) -> Path:
    """Write the packages of some styles, and the one with the names."""
    write_archive(folder, NAMES_OF_EMOJI, names_files(emoji))
    for style in styles:
        write_archive(folder, PACKAGES[style], usual_style(style, emoji))
    return folder


def write_npm(folder: Path, script: str) -> Path:
    """Write a program named npm, which does what the lines of a shell script say."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "npm"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return folder
