"""Verdicts of the report's page: which numbers they give, of what, and what they claim."""

import re
from dataclasses import dataclass
from math import nan

import pytest

from changing import replace
from eyechart.reports.html.verdict import (
    about_humans,
    below_crowd,
    human_comparisons,
    verdict_on,
)
from eyechart.scores.curve_significance import Lead
from nonempty import at_least_one
from report_pages import Node, Page, at, files_of, with_results
from report_runs import BLIND
from report_shelf import Shelf

NOISE, BLUR = "vcr/gaussian_noise", "vcr/gaussian_blur"
TONES = {
    (False, False): "even", (True, False): "behind", (False, True): "ahead", (True, True): "mixed",
}  # fmt: skip
"""By whether people are ahead under any corruption, and whether the model is."""


@dataclass(frozen=True)
class Words:
    """A verdict as it is read: on which model, how it is marked, its sentence and what is below."""

    name: str
    tone: str
    badge: str
    text: Node
    details: Node

    @property
    def lead(self):
        """The ends of the range in which the model first falls behind, as far as they are given."""
        found = re.search(r"at Δv ([\d.]+) to ([\d.]+)\.", self.details.text)
        return [float(end) for end in found.groups()] if found else []

    @property
    def open(self):
        """The bounds of HMRI that unobserved ranges leave, as far as they are given."""
        found = re.search(r"anywhere from ([\d.]+) to ([\d.]+)\.", self.details.text)
        return [float(end) for end in found.groups()] if found else []


def estimate_in(record):
    return [record["value"], *record["interval95"]]


def counts_in(node):
    """The numbers of corruptions in the sentence on leads."""
    found = re.search(
        r"lead significantly under (\w+) of the (\d+) corruptions, and the model leads under (\w+)",
        node.text,
    )
    return [int(own) for own in found.groups() if own != "none"] if found else []


def words_on(report, place=0):
    part = report.sections[place]
    found = []
    for shown in part.models:
        own = verdict_on(part, shown)
        text, details = (Page(str(each)).root for each in (own.text, own.details))
        found.append(Words(shown.name, own.tone, own.badge, text, details))
    return found


def compared_with_humans(report, name):
    """What results.json says of a model next to people: by corruption, and means."""
    for file in files_of(report):
        for model in file["models"]:
            if model["name"] == name:
                space = model["spaces"]["entry16"]
                found = space["corruptions"]
                all_humans = {key: own["accuracy"]["humans"] for key, own in found.items()}
                near = {key: own for key, own in all_humans.items() if own is not None}
                return near, space["means"]
    raise AssertionError(name)


def is_ahead(humans, who):
    return humans[f"p_{who}"] < 0.05 and any(own["who"] == who for own in humans["tested"])


@pytest.mark.parametrize("kind", ["humans", "two runs", "chance"])
def test_a_verdict_compared_with_humans_says_how_near_a_model_comes_and_who_is_ahead_where(
    made, kind
):
    report, page = made(kind)
    for words in at_least_one(words_on(report)):
        near, means = compared_with_humans(report, words.name)
        assert near
        humans, model = (
            [name for name, own in near.items() if is_ahead(own, who)]
            for who in ("humans", "model")
        )
        assert words.tone == TONES[bool(humans), bool(model)]
        (shown,) = page.root.all("li", data_verdict=words.name)
        assert words.tone in shown.own["class"].split() and words.badge in shown.text
        direct = sum(own["kind"] == "direct" for own in near.values())
        both = [direct, len(near) - direct]
        hmri, mrsi = estimate_in(means["hmri_a"]), estimate_in(means["mrsi_a"])
        # the model's own lead is given in percent only where it is more than chance
        leads_of_model = [*mrsi, mrsi[0]] if model else [mrsi[0]] if humans else []
        assert words.text.values == [
            *hmri, len(near), *(both if all(both) else []), hmri[0], *leads_of_model,
            *farthest(words, near, humans),
        ]  # fmt: skip
        starts = [
            (lead["start"], lead["end"], name)
            for name in humans
            for lead in near[name]["tested"]
            if lead["who"] == "humans"
        ]
        counts = [len(humans)] * bool(humans) + [len(near)] + [len(model)] * bool(model)
        first = min(starts, default=())
        expected = [*counts, *first[:2]] if humans or model else []
        assert words.details.values[: len(expected)] == expected
        assert bool(words.lead) == bool(first)
        if first:
            under = re.search(r"behind humans under (.+?), at Δv", words.details.text)[1]
            assert under.lower() == first[2].partition("/")[2].replace("_", " ")


def farthest(words, near, humans):
    """Where people are farthest ahead, of all places at which they clearly are."""
    gaps = [
        (theirs - mine, change, mine, theirs, name)
        for name in humans
        for change, theirs, mine in zip(
            near[name]["line"]["delta_v"],
            near[name]["line"]["values"],
            near[name]["model_line"]["values"],
            strict=True,
        )
        if any(
            lead["who"] == "humans" and lead["start"] <= change <= lead["end"]
            for lead in near[name]["tested"]
        )
    ]
    said = re.search(r"farthest behind under (.+?) at a visual", words.text.text)
    assert bool(said) == bool(gaps)
    if not gaps:
        return []
    _, change, mine, theirs, name = max(gaps, key=lambda own: own[0])
    assert said[1].lower() == name.partition("/")[2].replace("_", " ")
    return [change, mine, theirs]


def test_the_pages_have_models_ahead_of_humans_and_models_behind_them(made):
    tones = {own.tone for kind in ("humans", "two runs") for own in words_on(made(kind)[0])}
    assert {"ahead"} < tones and tones & {"behind", "mixed"}


# Made to be clear


def with_humans(report, **changes):
    """The report with each model's comparison with people changed, by the corruption's bare name.

    What is said of "all" changes all.
    """

    def changed(name, own):
        if own.accuracy is None or own.accuracy.humans is None:
            return own
        change = {**changes.get("all", {}), **changes.get(name.rsplit("/", 1)[-1], {})}
        humans = replace(own.accuracy.humans, **change)
        return replace(own, accuracy=replace(own.accuracy, humans=humans))

    results = report.runs[0].results
    models = []
    for model in results.models:
        spaces = {
            name: replace(
                space,
                corruptions={key: changed(key, own) for key, own in space.corruptions.items()},
            )
            for name, space in model.spaces.items()
        }
        models.append(replace(model, spaces=spaces))
    return with_results(report, replace(results, models=tuple(models)))


def leads(*ranges, who="humans"):
    return tuple(Lead(start=start, end=end, who=who) for start, end in ranges)


def clear(*ranges):
    """People clearly ahead in some ranges."""
    return {"tested": leads(*ranges), "p_humans": 0.001, "p_model": 1.0}


@pytest.mark.parametrize(
    ("noise", "blur", "first", "start"),
    [
        (clear((0.6, 0.9)), clear((0.3, 0.5)), "Gaussian blur", 0.3),
        (clear((0.2, 0.9)), clear((0.3, 0.5)), "Gaussian noise", 0.2),
        (clear((0.6, 0.7), (0.8, 0.9)), clear((0.7, 0.75)), "Gaussian noise", 0.6),
        # by chance
        (clear((0.6, 0.9)), {**clear((0.3, 0.5)), "p_humans": 0.051}, "Gaussian noise", 0.6),
        # of the model
        (
            clear((0.6, 0.9)),
            {"tested": leads((0.1, 0.2), who="model"), "p_humans": 1.0, "p_model": 0.001},
            "Gaussian noise",
            0.6,
        ),
        (
            clear((0.6, 0.9)),
            {"tested": leads((0.1, 0.2), who="model") + leads((0.4, 0.5)), "p_humans": 0.001},
            "Gaussian blur",
            0.4,
        ),
    ],
)
def test_a_model_falls_behind_first_where_the_visual_change_is_least(
    made, noise, blur, first, start
):
    report, _ = made("humans")
    for words in at_least_one(
        words_on(with_humans(report, gaussian_noise=noise, gaussian_blur=blur))
    ):
        assert words.lead[0] == start
        # its name is the last that is said before the number
        before = words.details.text.partition(f"{start:.2f} to")[0]
        last = max(("Gaussian noise", "Gaussian blur"), key=before.rfind)
        assert first in before and last == first


@pytest.mark.parametrize(
    ("p_humans", "p_model", "who", "tone", "counts"),
    [
        (0.04, 1.0, "humans", "behind", [2, 2]),
        (1.0, 0.04, "model", "ahead", [2, 2]),
        (0.04, 0.04, "both", "mixed", [2, 2, 2]),
        (0.05, 0.05, "both", "even", []),
        (0.051, 1.0, "humans", "even", []),
        # who is ahead must be ahead somewhere
        (0.04, 1.0, "model", "even", []),
    ],
)
def test_a_verdict_claims_no_more_than_the_test(made, p_humans, p_model, who, tone, counts):
    report, _ = made("humans")
    both = ("humans", "model") if who == "both" else (who,)
    tested = tuple(own for each in both for own in leads((0.4, 0.6), who=each))
    change = {"tested": tested, "p_humans": p_humans, "p_model": p_model}
    for words in at_least_one(words_on(with_humans(report, all=change))):
        assert words.tone == tone and counts_in(words.details) == counts
        assert words.lead == ([0.4, 0.6] if tone in ("behind", "mixed") else [])


def test_a_verdict_says_what_unobserved_ranges_leave_open(made):
    report, _ = made("humans")
    bounds = {"gaussian_noise": {"hmri_bounds": (0.2, 0.7)}}
    wide = with_humans(report, **bounds, gaussian_blur={"hmri_bounds": (0.3, 0.9)})
    for words in at_least_one(words_on(wide)):
        said = words.details.text.partition("Not every visual change")[2]
        assert "Gaussian blur" in said and "Gaussian noise" not in said
        assert words.open == [0.3, 0.9]
    narrow = with_humans(report, all={"hmri_bounds": (0.85, 0.9)})
    for words in at_least_one(words_on(narrow)):
        assert not words.open


def test_too_few_images_make_no_claim(made):
    report, _ = made("entry16")
    results = report.runs[0].results
    space = results.models[0].spaces["entry16"]
    few = replace(space, verdict="insufficient data", n_images=5)
    model = replace(results.models[0], spaces={"entry16": few})
    (words,) = words_on(with_results(report, replace(results, models=(model,))))
    assert words.tone == "unclear" and words.text.values[0] == 5
    assert not words.details.text
    assert "insufficient" in words.badge
    assert not re.search("ahead|behind", f"{words.text.text} {words.badge}")


def test_humans_who_recognised_nothing_are_nothing_to_be_near_to(made):
    report, _ = made("entry16")
    results = report.runs[0].results
    space = results.models[0].spaces["entry16"]
    none = replace(space.means["hmri_a"], value=nan, interval95=(nan, nan))
    model = replace(
        results.models[0], spaces={"entry16": replace(space, means={**space.means, "hmri_a": none})}
    )
    (words,) = words_on(with_results(report, replace(results, models=(model,))))
    assert words.tone == "unclear" and not words.text.numbers and "humans" in words.text.text


def test_a_correction_for_chance_is_said(made):
    for kind in ("chance", "humans"):
        report, page = made(kind)
        said = about_humans(report.sections[0])
        assert said in page.text
        assert ("corrected for chance" in said) == (kind == "chance")


# Without people


@pytest.mark.parametrize(
    ("kind", "score"),
    [
        ("levels", "means/r_a"),
        ("unlabeled", "means/r_p"),
        ("native", "means/r_a"),
        ("files", "means/error"),
    ],
)
def test_without_humans_a_verdict_goes_by_what_there_is(made, kind, score):
    report, page = made(kind)
    shelf = Shelf(report)
    for words in words_on(report):
        scores = estimate_in(shelf.get(f"{shelf.space(0, words.name, 'native')}/{score}"))
        values = words.text.values
        assert any(values[place : place + 3] == scores for place in range(len(values)))
        is_few = at(files_of(report), "0/models/0/spaces/native/verdict")
        badge = "insufficient data" if is_few else "not compared with humans"
        assert (words.tone, words.badge) == ("unclear", badge)
    assert "HMRI" not in page.text and about_humans(report.sections[0]) in page.text


@pytest.mark.parametrize("kind", ["levels", "own suite"])
def test_without_humans_a_verdict_names_the_corruption_with_most_errors(made, kind):
    report, _ = made(kind)
    files = files_of(report)
    named = 0
    for words in words_on(report):
        said = re.search(r"it errs most under (.+?) \(", words.text.text)
        home = next(
            own["spaces"]["native"] for own in files[0]["models"] if own["name"] == words.name
        )
        errors = {name: own["error"]["value"] for name, own in home["corruptions"].items()}
        worst = max(errors, key=errors.get)
        assert bool(said) == (errors[worst] >= 0.01)
        if said:
            assert words.text.values[-1] == errors[worst]
            assert worst.replace("_", " ").lower() == said[1].lower()
            named += 1
    assert named


def test_without_humans_mce_goes_first(made):
    report, _ = made("own suite")
    (standings,) = [part.standings for part in report.sections]
    baseline = standings.board.baseline
    assert baseline in standings.board.models
    shelf = Shelf(report)
    for words in words_on(report):
        home = shelf.space(0, words.name, standings.space)
        mce = estimate_in(shelf.get(f"{home}/corruption_error/mce"))
        # errors in percent of one's own say nothing
        is_given = words.text.values[:3] == mce
        assert is_given == (words.name != baseline)
        assert not is_given or baseline in words.text.text
        assert "mCE" in words.text.text and "Rₐ" not in words.text.text
    report, _ = made("levels")
    # of two corruptions of fifteen there is none
    assert report.sections[0].standings.board.baseline == BLIND
    assert not [words for words in words_on(report) if "mCE" in words.text.text]


def test_a_verdict_sets_the_packaged_humans_beside_the_published_crowd(made):
    """0.837 is what the paper's Table 3 implies for median blur; nothing is said of noise."""
    report, _ = made("humans")
    (part,) = report.sections
    near = list(human_comparisons(part, part.models[0], "entry16", "a").values())
    packaged = {
        name: replace(own, reference="geirhos")
        for own, name in zip(near, ("vcr/median_blur", "vcr/shot_noise"), strict=True)
    }
    words = Page(str(below_crowd(packaged))).root
    assert "Median blur" in words.text or "median blur" in words.text
    assert "against 0.837" in words.text and "noise" not in words.text
    assert words.values == [near[0].areas.human]
    others = {name: replace(own, reference="mine") for name, own in packaged.items()}
    assert below_crowd(others) == ""
