"""Calibration: the strengths at which a model keeps so much of its accuracy.

Judged by models whose accuracy along strength can be said in closed form, and by looking at every
strength there is.
"""

import csv
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import eyechart as ec
from calling import CPU, photo_levels
from commands import assert_rejected
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.suites.strength import draw_strengths
from eyechart.corruptions.suites.suite import Entry, find_entry, load_suite
from eyechart.corruptions.suites.suite_file import write_suite
from eyechart.images.image_list import ListedImage
from eyechart.images.imageset import ImageSet
from eyechart.images.stimulus import STIMULI
from eyechart.models.find import load_model
from eyechart.overlap.calibrate import calibrate_entry, calibrated_suite, check_entries
from eyechart.overlap.overlap_settings import CalibrationSettings
from eyechart.overlap.strengths import RobustnessProbe, StrengthScale, robustness_of
from small_models import save_images

SIDE = 32


def calibrate(model, images, entries, settings=None):
    """What the command does with images in memory."""
    check_entries(entries)
    judge = RobustnessProbe(model, images)
    return [calibrate_entry(judge, entry, settings or CalibrationSettings()) for entry in entries]


def as_images(images, labels):
    """Pictures as if they had been decoded."""
    names = [f"{place:04d}" for place in range(len(images))]
    listed = tuple(
        ListedImage(Path(name), name, label) for name, label in zip(names, labels, strict=True)
    )
    sizes = (tuple(images.shape[2:]),) * len(names)
    kept = dict(enumerate(images))
    return ImageSet("made", STIMULI["native"], listed, tuple(names), sizes, (), kept)


# A closed form: right as long as the picture is not too bright

THRESHOLD = 0.7
GRAYS = np.linspace(0.2, 0.6, 400)
"""How bright the 400 clean pictures are; red ones and blue ones in turn."""


def bright_images():
    tint = np.where(np.arange(400) % 2, 1, -1)[:, None] * np.array([12, 0, -12])
    levels = np.round(GRAYS * 255)[:, None] + tint
    images = torch.from_numpy(levels.astype(np.uint8))[:, :, None, None].expand(-1, -1, 20, 20)
    return as_images(images, ["red" if place % 2 else "blue" for place in range(400)])


def dazzled(images):
    """Tells red from blue, and takes one for the other where the picture is too bright."""
    red, _, blue = images.mean(dim=(2, 3)).unbind(1)
    sign = torch.where(images.mean(dim=(1, 2, 3)) < THRESHOLD, 1, -1)
    return torch.stack([(blue - red) * sign, (red - blue) * sign], dim=1)


def brighter(**changes):
    """Adds gray, the same amount to every picture; the published range is 0.05 to 0.15."""
    path = {"amount": (0.05, 0.15), "direction": (1.0, 1.0)}
    entry = Entry(
        "brighter", "mine", "noc/brightness", "weather", path=path, domain={"amount": (0.05, 0.15)}
    )
    return replace(entry, **changes)


def amount_at(robustness):
    """So much may be added that this share of the pictures stays below the threshold."""
    return THRESHOLD - np.quantile(GRAYS, robustness)


def test_both_ends_are_where_the_closed_form_has_them():
    (found,) = calibrate(load_model(dazzled, CPU), bright_images(), [brighter()])
    # a gray level, and the gap between two pictures
    near = 1 / 255 + 0.4 / 400
    assert found.lower.values["amount"] == pytest.approx(amount_at(0.95), abs=near)
    assert found.upper.values["amount"] == pytest.approx(amount_at(0.5), abs=near)
    assert found.lower.robustness.value == pytest.approx(0.95, abs=0.01)
    assert found.upper.robustness.value == pytest.approx(0.5, abs=0.01)
    assert (found.reach, found.note) == (None, "")
    # beyond the published strong end, which is what makes it interesting
    assert found.upper.values["amount"] > 0.15
    low, high = found.entry.domain["amount"]
    assert (low, high) == found.entry.path["amount"]
    assert (low, high) == (found.lower.values["amount"], found.upper.values["amount"])
    # what does not move stays as it is, and is not drawn
    assert found.entry.domain["direction"] == (1, 1)


def test_other_targets_have_other_ends():
    settings = CalibrationSettings(lower=0.8, upper=0.2)
    (found,) = calibrate(load_model(dazzled, CPU), bright_images(), [brighter()], settings)
    assert found.lower.values["amount"] == pytest.approx(amount_at(0.8), abs=0.005)
    assert found.upper.values["amount"] == pytest.approx(amount_at(0.2), abs=0.005)


LEVELS = {20: {"amount": (0.05, 0.1, 0.15, 0.2, 0.25), "direction": (1.0,) * 5}}


def test_with_levels_the_strength_is_the_severity_and_its_end_is_5():
    entry = brighter(path={}, domain={}, levels=LEVELS)
    (found,) = calibrate(load_model(dazzled, CPU), bright_images(), [entry])
    # a severity adds 0.05
    assert found.lower.values["severity"] == pytest.approx(amount_at(0.95) / 0.05, abs=0.1)
    assert found.upper.values == {"severity": 5.0}
    expected = np.mean(np.round(GRAYS * 255) + 0.25 * 255 < THRESHOLD * 255)
    assert found.reach == found.upper.robustness.value == pytest.approx(expected, abs=0.01)
    assert found.note == f"R 0.5 cannot be reached: it is {found.reach:.3f} at the maximum strength"
    assert found.entry.severity == (found.lower.values["severity"], 5)
    assert found.entry.levels == LEVELS


def test_a_corruption_that_takes_nothing_is_called_harmless_and_keeps_its_range():
    # red and blue grow together, so which is larger stays; and a threshold nobody reaches
    def unmoved(images):
        red, _, blue = images.mean(dim=(2, 3)).unbind(1)
        return torch.stack([blue - red, red - blue], dim=1)

    entry = brighter(path={}, domain={}, levels=LEVELS)
    (found,) = calibrate(load_model(unmoved, CPU), bright_images(), [entry])
    assert found.entry.severity == (1, 5)
    assert found.reach == 1
    assert found.note == "harmless: R is 1.00 at the maximum strength"


def test_where_the_mildest_step_is_too_much_the_range_begins_there():
    entry = Entry("grain", "mine", "impulse_noise", "noise", path={"amount": (0.001, 0.1)})

    def flawless(images):
        """Right only where every value of a picture is the same in a channel, as it was."""
        noisy = images.std(dim=(2, 3)).amax(dim=1) > 1e-6
        right = dazzled(images)
        return torch.where(noisy[:, None], -right, right)

    whole = replace(find_entry("noc/border"), name="frame")
    (grain, frame) = calibrate(load_model(flawless, CPU), bright_images(), [entry, whole])
    # one value of 1,200 is enough, so nearly nothing is left of nearly nothing
    assert 0 < grain.lower.values["amount"] < 0.001
    # at 20 px a frame has one pixel at least
    assert StrengthScale(whole, 20).step(frame.lower.strength) == (1.0,)
    assert frame.lower.robustness.value < 0.1
    assert frame.note.startswith("the mildest step already lowers R to 0.0")


# Every strength there is, looked at one by one


COUNT = 240


@cache
def mixed_images():
    """Pictures, each of one of eight photographs, with more or less of another mixed in."""
    whole = photo_levels(64, 64, 4).to(torch.float64)
    parts = [whole[:, :, :SIDE, :SIDE], whole[:, :, SIDE:, SIDE:]]
    real_images = torch.cat(parts)
    number = np.random.default_rng(3)
    own = np.arange(COUNT) % 8
    other = (own + number.integers(1, 8, COUNT)) % 8
    share = torch.from_numpy(number.uniform(0, 0.48, COUNT))[:, None, None, None]
    mixed = real_images[own] * (1 - share) + real_images[other] * share
    images = as_images(mixed.round().to(torch.uint8), [f"photo {place}" for place in own])

    def nearest(pixels):
        """Answers with the photograph that differs least."""
        flat = pixels.flatten(1).to(torch.float64) * 255
        return -torch.cdist(flat, real_images.flatten(1)) / 100

    return nearest, images


def scanned(name, parameter, value):
    """R where every picture is corrupted with this value, through `corrupt` alone."""
    model, images = mixed_images()
    pixels = images.batch(range(COUNT))
    changed = ec.corrupt(pixels, name, keys=list(images.digests), **{parameter: value})
    labels = torch.tensor([int(label[-1]) for label in images.labels])

    def right(shown):
        return int((model(shown.to(torch.float32) / 255).argmax(dim=1) == labels).sum())

    return right(changed) / right(pixels)


@cache
def calibrated(name):
    model, images = mixed_images()
    (found,) = calibrate(load_model(model, CPU), images, [find_entry(name)])
    return found


WHOLE = {
    # its parameter, and every value of it that makes a difference at 32 px, mild ones first
    "noc/quantization": ("levels", range(256, 1, -1)),
    "noc/border": ("thickness", range(7, 113, 7)),
    "noc/rotation": ("degrees", range(1, 181)),
    "noc/elastic": ("crop", range(7, 225, 7)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_end_at_the_step_whose_r_is_nearest(name):
    parameter, steps = WHOLE[name]
    found, scale = calibrated(name), StrengthScale(find_entry(name), SIDE)
    pixels = {scale._settled(scale.moved[0], value): value for value in steps}
    places = list(pixels)
    for end, target in ((found.lower, 0.95), (found.upper, 0.5)):
        place = places.index(scale.step(end.strength)[0])
        own = scanned(name, parameter, pixels[places[place]])
        assert own == end.robustness.value
        if end is found.upper and found.reach is not None:
            assert (own, place) == (found.reach, len(places) - 1)
            continue
        # one of its neighbors lies on the other side of the target, and is no nearer to it;
        # the picture as it is counts as one, but is none to choose
        before = scanned(name, parameter, pixels[places[place - 1]]) if place else 1.0
        after = scanned(name, parameter, pixels[places[place + 1]])
        beyond = [each for each in (before, after) if (each - target) * (own - target) <= 0]
        assert abs(own - target) <= 0.002 or beyond
        if place:
            assert all(abs(own - target) <= abs(each - target) for each in beyond)


@pytest.mark.parametrize(("name", "parameter"), [("noc/gaussian", "sigma"), ("noc/hue", "turns")])
def test_real_numbers_end_where_a_fine_scan_crosses(name, parameter):
    found = calibrated(name)
    limit = find_entry(name).corruption.parameter(parameter).high
    grid = np.linspace(0, limit, 31)
    scan = np.array([1.0, *(scanned(name, parameter, value) for value in grid[1:])])
    for end, target in ((found.lower, 0.95), (found.upper, 0.5)):
        value = end.values[parameter]
        assert scanned(name, parameter, value) == end.robustness.value
        # R is that of a few pictures: it may cross back and forth a little before it is below
        below, above = np.flatnonzero(scan < target), np.flatnonzero(scan >= target)
        if len(below):
            assert grid[below[0] - 1] <= value <= grid[above[-1] + 1]
            assert above[-1] + 1 - below[0] <= 1
        else:
            assert (value, end.robustness.value) == (limit, found.reach)


@pytest.mark.parametrize("name", WHOLE)
def test_the_range_that_is_written_gives_the_images_that_were_judged(name):
    """Of 224ths of a side seven are one pixel: the outermost that make the same frame are taken."""
    found = calibrated(name)
    _, images = mixed_images()
    few = images.batch(range(4))
    parameter = WHOLE[name][0]
    for end, written in zip((found.lower, found.upper), found.entry.path[parameter], strict=True):
        judged, drawn = (
            ec.corrupt(few, name, keys=images.digests[:4], **{parameter: value})
            for value in (end.values[parameter], written)
        )
        assert torch.equal(judged, drawn)
    low, high = sorted(found.entry.path[parameter])
    assert found.entry.domain[parameter] == (low, high)


def test_every_length_in_pixels_is_drawn_equally_often():
    entry = calibrated("noc/border").entry
    count = 7000
    random = ImageRandom(torch.arange(count), [0] * count, CPU)
    units = draw_strengths(entry, random)[1]["thickness"]
    pixels, counts = np.unique(np.floor(units * SIDE / 224 + 0.5), return_counts=True)
    assert len(pixels) > 3
    assert counts / count == pytest.approx(1 / len(pixels), abs=0.02)


# The scale itself

EVERY = [*load_suite("noc-candidates"), *load_suite("vcr"), *load_suite("imagenet-c")]


@pytest.mark.parametrize("side", [32, 224, 448])
def test_strength_runs_from_nothing_through_the_published_range_to_what_is_allowed(side):
    for entry in EVERY:
        scale = StrengthScale(entry, side)
        scale.check()
        if scale.by_severity:
            assert scale.farthest == 5
            continue
        assert scale.farthest >= 5
        strengths = np.linspace(0, scale.farthest, 60)
        for parameter in scale.moved:
            mild, strong = entry.path[parameter.name]
            values = np.array([scale.values(each)[parameter.name] for each in strengths])
            rises = np.sign(strong - mild)
            assert (np.diff(values) * rises >= 0).all(), entry.name
            parameter.check(values[1:])
            ends = (scale.values(1.0)[parameter.name], scale.values(5.0)[parameter.name])
            assert ends == pytest.approx((mild, strong), rel=1e-4), entry.name
            last = values[-1] if rises > 0 else -values[-1]
            limit = parameter.high if rises > 0 else -parameter.low
            length = {"thickness": 112}.get(parameter.name, 224)
            assert last == (min(limit, length) if parameter.scales_with_size else limit)


def test_what_is_moved_by_equal_factors_is_drawn_so_too():
    entry = StrengthScale(find_entry("vcr/shot_noise"), 224).between(1.5, 4.5)
    assert entry.severity == (1, 5)
    assert entry.path["photons"] == pytest.approx((230, 2.17), rel=0.01)


def test_what_leads_to_a_images_own_draw_is_calibrated_by_severity():
    entry = find_entry("vcr/color_jitter")
    assert StrengthScale(entry, 32).between(0.5, 2.0) == replace(entry, severity=(0.5, 2.0))


def test_a_range_of_severities_never_closes():
    entry = find_entry("fog")
    for low, high in ((5, 5), (0.001, 0.001), (3, 3)):
        found = StrengthScale(entry, 32).between(low, high).severity
        assert 0 <= found[0] < found[1] <= 5


# How sure R is


@pytest.mark.parametrize("counts", [(150, 40, 5), (95, 5, 0), (20, 180, 3), (400, 0, 0)])
def test_the_interval_of_r_is_that_of_resampled_images(counts):
    both, only_clean, only_corrupted = counts
    found = robustness_of(*counts)
    assert found.value == (both + only_corrupted) / (both + only_clean)
    shares = np.array([both, only_clean, only_corrupted, 60])
    drawn = np.random.default_rng(0).multinomial(shares.sum(), shares / shares.sum(), 20_000)
    again = (drawn[:, 0] + drawn[:, 2]) / (drawn[:, 0] + drawn[:, 1])
    low, high = np.quantile(again, [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)


def test_an_interval_of_nothing_has_an_upper_end():
    found = robustness_of(0, 50, 0)
    assert (found.value, found.low) == (0, 0)
    assert 0.05 < found.high < 0.1


# Refusals


def test_bad_input_is_rejected_in_one_sentence():
    model, images = load_model(dazzled, CPU), bright_images()
    wrong = load_model(lambda pixels: torch.rand(len(pixels), 2), CPU)
    fixed = brighter(path={"amount": (0.1, 0.1)})
    few = images.select(range(15))

    for sentence, call in (
        (r"mild end\) must exceed upper", CalibrationSettings(lower=0.5, upper=0.95).check),
        ("between 0 and 1", CalibrationSettings(lower=1.0).check),
        ("too few to measure", lambda: calibrate(wrong, images, [brighter()])),
        ("is correct on 15 of 15", lambda: calibrate(model, few, [brighter()])),
        ("neither levels nor a path", lambda: calibrate(model, images, [fixed])),
        ("is passed twice", lambda: calibrate(model, images, [brighter(), brighter()])),
    ):
        with pytest.raises(ec.UsageError, match=sentence) as error:
            call()
        assert "\n" not in str(error.value)


def test_images_of_several_sizes_are_rejected():
    images = bright_images()
    mixed = replace(images, sizes=((24, 20), *images.sizes[1:]))
    with pytest.raises(ec.UsageError, match=r"must have the same size, got 2.*20 × 20"):
        calibrate(load_model(dazzled, CPU), mixed, [brighter()])


# The suite


def test_a_calibrated_suite_reads_back_and_draws_within_its_ranges(tmp_path):
    found = [calibrated(name) for name in WHOLE]
    suite = calibrated_suite(found, "mine", "Mine", "me")
    write_suite(suite, tmp_path / "mine.yaml")
    again = load_suite(str(tmp_path / "mine.yaml"))
    assert again == suite
    for entry, each in zip(again, found, strict=True):
        assert f"R {each.lower.robustness.value:.3f} at the mild end" in entry.note
        random = ImageRandom(torch.arange(500), [0] * 500, CPU)
        values = draw_strengths(entry, random)[1]
        for name, (low, high) in entry.domain.items():
            assert low <= values[name].min() <= values[name].max() <= high
        assert each.entry.corruption is entry.corruption


# The command


def command(tmp_path, *more):
    images = tmp_path / "images"
    if not images.exists():
        save_images(images, each=10)
    return (
        "overlap", "calibrate", "small_models:colors", "--images", images, "--stimulus",
        "native", "--corruption", "noc/contrast", "--corruption", "noc/border", "--corruption",
        "contrast", "--suite", "noc-candidates", "--suite", "imagenet-c",
        "--out", tmp_path / "mine.yaml", *more,
    )  # fmt: skip


def test_the_command_writes_a_suite_a_table_and_a_record(run, tmp_path):
    done = run(*command(tmp_path))
    assert done.status == 0, done.err
    suite = load_suite(str(tmp_path / "mine.yaml"))
    assert [entry.name for entry in suite] == ["noc/contrast", "noc/border", "contrast"]
    with (tmp_path / "mine.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["corruption"] in done.out
        assert row["lower"] in done.out
        robustness = [float(row[f"lower_{key}"]) for key in ("low", "robustness", "high")]
        assert robustness == sorted(robustness)
    assert json.loads((tmp_path / "mine.json").read_text())["settings"]["lower"] == 0.95


def test_so_many_images_are_used_as_many_of_every_class(run, tmp_path, monkeypatch):
    import eyechart.overlap.strengths as module

    used = []

    class Probe(RobustnessProbe):
        def __init__(self, model, images, seed):
            super().__init__(model, images, seed)
            used.extend(images.labels)

    monkeypatch.setattr(module, "RobustnessProbe", Probe)
    done = run(*command(tmp_path, "--max-images", 32))
    assert done.status == 0, done.err
    assert len(used) == 32 and len({used.count(label) for label in used}) == 1


def test_an_interrupted_command_goes_on_to_the_same_result(run, tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    whole.mkdir()
    assert run(*command(tmp_path, "--out", whole / "mine.yaml")).status == 0

    import eyechart.overlap.calibrate as module

    real, seen = module.calibrate_entry, []

    def interrupted(judge, entry, *more):
        seen.append(entry.name)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(judge, entry, *more)

    monkeypatch.setattr(module, "calibrate_entry", interrupted)
    stopped = run(*command(tmp_path))
    assert stopped.status == 130
    assert "1 of 3 corruptions are in" in stopped.err
    assert not (tmp_path / "mine.yaml").exists()
    assert run(*command(tmp_path)).status == 0
    assert seen == ["noc/contrast", "noc/border", "noc/border", "contrast"]
    for name in ("mine.yaml", "mine.csv"):
        assert (tmp_path / name).read_text() == (whole / name).read_text()
    # a finished one is there at once
    assert run(*command(tmp_path)).status == 0
    assert len(seen) == 4


def test_the_command_rejects_what_cannot_be(run, tmp_path):
    foreign = tmp_path / "notes.yaml"
    foreign.write_text("my: notes\n")
    table = tmp_path / "table.csv"
    table.write_text("my,table\n")
    own = tmp_path / "own.yaml"
    write_suite(load_suite("vcr"), own)
    for more, words in (
        (("--lower", 0.4), "lower (at the mild end) must exceed upper"),
        (("--out", foreign), "is not a suite"),
        (("--out", table.with_suffix(".yaml")), "not from a calibration"),
        (("--out", own), "not from a calibration"),
        (("--out", tmp_path / "x.txt"), "must end in .yaml"),
        (("--out", tmp_path / "none" / "x.yaml"), "No such folder"),
        (("--suite", tmp_path / "none.yaml"), "Cannot read the suite"),
        (("--suite", "noc"), "Unknown suite"),
        (("--corruption", "noc/contrst"), "Did you mean 'noc/contrast'"),
        (("--images", tmp_path / "none"), "No such file or folder"),
        (("--max-images", 0), "--max-images must be at least 1"),
        (("--max-images", 8), "too few to measure"),
        (("--stimulus", "17"), "from 18 to 1024 px"),
    ):
        assert_rejected(run(*command(tmp_path, *more)), words)
    assert foreign.read_text() == "my: notes\n"
    assert load_suite(str(own)) == load_suite("vcr")


def test_a_record_of_another_configuration_is_rejected(run, tmp_path):
    assert run(*command(tmp_path, "--max-images", 30)).status == 0
    assert_rejected(run(*command(tmp_path)), "other settings (images: ")
    assert_rejected(
        run(*command(tmp_path, "--max-images", 30, "--lower", 0.9)), "other settings (lower: "
    )
    (tmp_path / "mine.json").write_text("{")
    assert_rejected(run(*command(tmp_path, "--max-images", 30)), "not from a calibration")


def test_images_without_labels_are_rejected_by_the_command(run, tmp_path):
    images = save_images(tmp_path / "images", 1)
    listed = sorted(images.rglob("*.png"))
    lines = ["path,label", *(f"{path}," for path in listed)]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    result = run(*command(tmp_path, "--images", tmp_path / "list.csv"))
    assert_rejected(result, "has a label")
