"""Strips of example pictures on the page: which pictures, what was said, in which order."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from nonempty import at_least_one
from report_shelf import Shelf, called

MARKS = {(True, None): "✓", (False, None): "✗", (None, True): "=", (None, False): "≠"}


def strips(report, page):
    """Yield the strip of every corruption, with its name and its run."""
    shelf = Shelf(report)
    for place, part in enumerate(shelf.parts):
        names = shelf.files[part[0]]["config"]["corruptions"]
        for number, name in enumerate(names):
            panel = page.by_id(f"corruption-{place}-{number}")
            title = panel.all("h4")[0].text.removesuffix(list(shelf.suites)[place]).strip()
            assert title.lower() == called(name)
            yield shelf, place, name, panel


def examples_of(file, corruption):
    """The places of the pictures that a strip must show, in its order."""
    own = [place for place, each in enumerate(file["examples"]) if each["corruption"] == corruption]
    images = {file["examples"][place]["image"] for place in own}
    clean = [
        place
        for place, each in enumerate(file["examples"])
        if each["corruption"] == "clean" and {each["image"]} == images
    ]
    return [*clean, *own]


def prediction_to(shelf, part, example, name):
    """A model's answer to an example, and its place, from the model's own run; None if not kept."""
    run = int(shelf.model(part, name).split("/")[0])
    for place, own in enumerate(shelf.files[run]["examples"]):
        same = all(own[key] == example[key] for key in ("corruption", "row", "image"))
        if same and name in own["predictions"]:
            return (
                f"{run}/examples/{place}/predictions/{name.replace('~', '~0').replace('/', '~1')}"
            )
    return None


def test_strips_hold_the_examples_of_their_corruption_in_order(any_page):
    report, page = any_page
    # the page of one model has nothing to choose from
    is_single = len(report.models) == 1
    shorts = {"0": report.models[0].short}
    if not is_single:
        options = page.by_id("predictions").all("option")
        shorts = {own.own["value"]: own.text for own in options}
    for shelf, part, name, panel in at_least_one(strips(report, page)):
        run = shelf.parts[part][0]
        expected = examples_of(shelf.files[run], name)
        frames = panel.all("li", kind="frame")
        assert len(frames) == len(expected) > 0
        failed = set()
        changes = []
        for frame, place in zip(frames, expected, strict=True):
            example = shelf.files[run]["examples"][place]
            is_clean = example["corruption"] == "clean"
            home = f"{run}/examples/{place}"
            where = frame.all("p", kind="where")[0].all("strong")[0]
            assert where.values == ([] if is_clean else shelf.values(f"{home}/delta_v"))
            changes += [] if is_clean or example["delta_v"] is None else [example["delta_v"]]
            strength = frame.all("span", kind="strength")[0]
            own = [
                f"{home}/severity",
                *(f"{home}/parameters/{key}" for key in example["parameters"]),
            ]
            assert strength.values == ([] if is_clean else shelf.values(*own))
            truth = frame.all("p", kind="truth")[0]
            assert [own.text for own in truth.all("q")] == [example["truth"]] * bool(
                example["truth"]
            )
            said = {}
            for line in frame.all("p", kind="prediction"):
                said[shelf.names[shorts[line.own["data-predictions"]]]] = line
            models = [own.name for own in report.sections[part].models]
            predictions = {model: prediction_to(shelf, part, example, model) for model in models}
            assert list(said) == [model for model in models if predictions[model]]
            for model, line in said.items():
                prediction = shelf.get(predictions[model])
                assert line.all("q")[0].text == " ".join(prediction["prediction"].split())
                assert line.values == [prediction["confidence"]]
                is_right = prediction["correct"]
                other = None if is_right is not None else prediction["consistent"]
                assert line.all("b")[0].text.startswith(MARKS.get((is_right, other), "?"))
                fails = not is_clean and (is_right is False or other is False)
                is_first = fails and model not in failed
                failed |= {model} if fails else set()
                assert bool(line.all("strong", kind="first")) == is_first
        assert changes == sorted(changes)


def pixels(image):
    return np.asarray(image.convert("RGB").resize((24, 24)), dtype=float)


@pytest.mark.parametrize("kind", ["both", "two runs", "files", "chance"])
def test_strips_show_the_images_that_they_speak_of(made, kind):
    report, page = made(kind)
    seen = 0
    for shelf, part, name, panel in strips(report, page):
        run = shelf.parts[part][0]
        kept = shelf.files[run]["examples"]
        folder = report.runs[run].folder / "examples"
        known = {own["file"]: pixels(Image.open(folder / own["file"])) for own in kept}
        frames = panel.all("li", kind="frame")
        for frame, place in zip(frames, examples_of(shelf.files[run], name), strict=True):
            (shown,) = frame.all("img")
            data = b64decode(shown.own["src"].partition(",")[2])
            image = pixels(Image.open(BytesIO(data)))
            distance = {file: np.abs(image - own).mean() for file, own in known.items()}
            nearest = min(distance, key=distance.get)
            assert distance[kept[place]["file"]] == pytest.approx(distance[nearest], abs=0.5)
            assert distance[nearest] < 12
            change = kept[place]["delta_v"]
            is_clean = kept[place]["corruption"] == "clean"
            assert is_clean or change is None or f" {change:.2f}" in shown.own["alt"]
            seen += 1
    assert seen > 5
