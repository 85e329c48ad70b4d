"""What a study shows to whom and what it takes: designs, pairs and budgets, without images."""

import re
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart_experiment.design.budget import (
    Prices,
    participant_seconds,
    plan_budget,
    trial_seconds,
)
from eyechart_experiment.design.pair_design import (
    design_pairs,
    matched_pairs,
    obvious_pairs,
    trials_within_reach,
)
from eyechart_experiment.design.plan_text import notes
from eyechart_experiment.design.stimulus_design import (
    PlannedStimulus,
    StudySample,
    design_categories,
    group_by_source,
    pool_sizes,
    source_loads,
)
from eyechart_experiment.study_config import StudyConfig


def changed(config, **settings):
    return replace(config, **settings)


CONFIG = StudyConfig(name="s", title="S", trials=30, practice=6, qualification=5, catch=3)
PAIRS = changed(CONFIG, kind="same-different", trials=10, practice=3, qualification=4, catch=2)
NAMES = ("blur", "fog", "noise")


def test_set(count, names=NAMES, each=2, seed=0, delta_v=None):
    """Rows of so many images, each corrupted so many times by each of `names`."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        category = CATEGORIES[number % 16]
        for name in ("clean", *(name for name in names for _ in range(each))):
            change = 0.0 if name == "clean" else float(random.random())
            if delta_v is not None and name != "clean":
                change = delta_v(name, random)
            rows.append(
                StudySample(
                    len(rows), f"d{number}", f"{number}.png", category, category, name, {}, change
                )
            )
    return rows


test_set.__test__ = False


def designed(count=160, config=CONFIG, seed=0, pool=None):
    return design_categories(group_by_source(test_set(count)), config, seed, pool)


# Naming images


def test_every_main_image_is_shown_clean_and_in_all_its_corrupted_images():
    rows, shown = test_set(160), designed()
    main = [each for each in shown if each.role == "main"]
    sources = {each.images[0].digest for each in main}
    wanted = {row.row for row in rows if row.digest in sources}
    assert Counter(each.images[0].row for each in main) == Counter(wanted)
    for each in main:
        assert each.capacity == (CONFIG.clean_k if each.images[0].is_clean else CONFIG.k)
        assert each.truth == each.images[0].category and len(each.images) == 1


def test_clean_images_have_their_own_number_of_responses():
    shown = designed(config=changed(CONFIG, k=3, clean_k=7))
    capacities = {each.images[0].is_clean: each.capacity for each in shown if each.role == "main"}
    assert capacities == {True: 7, False: 3}
    none = designed(config=changed(CONFIG, clean_k=0))
    assert not any(each.images[0].is_clean for each in none if each.role == "main")


def test_no_image_set_aside_comes_twice_or_in_the_main_part():
    shown = designed()
    aside = [each.images[0].digest for each in shown if each.role != "main"]
    main = {each.images[0].digest for each in shown if each.role == "main"}
    assert len(aside) == len(set(aside)) and not main & set(aside)
    assert all(each.capacity is None for each in shown if each.role != "main")
    roles = Counter(each.role for each in shown)
    assert (roles["practice"], roles["qualification"], roles["catch"]) == (9, 8, 6)


def test_practice_is_half_clean_and_half_the_mildest_there_is():
    shown = designed(config=changed(CONFIG, practice=16))
    rows = test_set(160)
    practice = [each.images[0] for each in shown if each.role == "practice"]
    mild = [row for row in practice if not row.is_clean]
    assert len(practice) == 24 and len(mild) == 12
    for row in mild:
        own = [r.change for r in rows if r.digest == row.digest and not r.is_clean]
        assert row.change == min(own)
    for role in ("qualification", "catch"):
        assert all(each.images[0].is_clean for each in shown if each.role == role)


def test_what_is_set_aside_is_of_all_categories_alike():
    config = changed(CONFIG, qualification=16, practice=16, catch=16)
    shown = designed(count=320, config=config)
    for role, count in (("qualification", 24), ("practice", 24), ("catch", 32)):
        own = Counter(each.truth for each in shown if each.role == role)
        assert sum(own.values()) == count
        assert len(own) == 16 and max(own.values()) - min(own.values()) <= 1


def test_a_small_category_keeps_half_of_its_images():
    rows = [row for row in test_set(320) if row.category != "bear" or int(row.digest[1:]) < 64]
    assert len({row.digest for row in rows if row.category == "bear"}) == 4
    config = changed(CONFIG, qualification=64, practice=0, catch=0)
    shown = design_categories(group_by_source(rows), config, 0, None)
    main = {each.images[0].digest for each in shown if each.role == "main"}
    assert len([d for d in main if CATEGORIES[int(d[1:]) % 16] == "bear"]) >= 2


def test_images_with_few_images_are_set_aside_first():
    rows = test_set(160)
    few = {f"d{number}" for number in range(32)}
    rows = [row for row in rows if row.is_clean or row.digest not in few or row.row % 3 == 0]
    config = changed(CONFIG, practice=0, qualification=10, catch=5)
    shown = design_categories(group_by_source(rows), config, 0, None)
    assert {each.images[0].digest for each in shown if each.role != "main"} <= few


def test_the_seed_decides_what_is_set_aside_whatever_the_order_of_rows():
    rows = test_set(160)
    turned = [row for row in rows if int(row.digest[1:]) % 2] + [
        row for row in rows if not int(row.digest[1:]) % 2
    ]

    def aside(own, seed):
        shown = design_categories(group_by_source(own), CONFIG, seed, None)
        return {(each.role, each.images[0].row) for each in shown if each.role != "main"}

    assert aside(rows, 3) == aside(turned, 3) != aside(rows, 4)


def test_pools_shrink_to_what_is_needed_before_a_study_is_rejected():
    assert sum(pool_sizes(CONFIG, None, 1000).values()) == 9 + 8 + 6
    exact = 30 + 6 + 5 + 6
    assert sum(pool_sizes(CONFIG, None, exact).values()) == 6 + 5 + 6
    with pytest.raises(UsageError, match=r"46 source images and this study needs 47: .*--trials"):
        pool_sizes(CONFIG, None, exact - 1)
    assert pool_sizes(CONFIG, 3, exact - 3)["catch"] == 3
    with pytest.raises(UsageError, match="catch-pool must be at least the number"):
        pool_sizes(CONFIG, 2, 1000)


def test_a_study_of_pairs_needs_two_images_for_each_trial():
    wanted = 2 * (3 + 4 + 4 + 10)
    assert sum(pool_sizes(PAIRS, None, wanted).values()) == 11
    with pytest.raises(UsageError, match=f"needs {wanted}: two per trial"):
        pool_sizes(PAIRS, None, wanted - 1)


def test_corrupted_images_without_visual_change_are_left_out():
    rows = [replace(row, delta_v=None) if row.corruption == "fog" else row for row in test_set(160)]
    shown = design_categories(group_by_source(rows), CONFIG, 0, None)
    assert {row.corruption for each in shown for row in each.images} == {"clean", "blur", "noise"}


def test_the_same_file_under_two_names_is_one_image():
    rows = test_set(3)
    again = [replace(row, row=100 + row.row, name="again.png") for row in rows[:7]]
    sources = group_by_source([*rows, *again])
    assert [len(source.corrupted) for source in sources] == [12, 6, 6]
    wrong = [replace(row, category="dog") for row in again]
    with pytest.raises(UsageError, match=r"0\.png and again\.png are the same image"):
        group_by_source([*rows, *wrong])


def test_a_test_set_without_clean_images_is_rejected():
    with pytest.raises(UsageError, match=r"no clean image of 1\.png"):
        group_by_source([row for row in test_set(3) if not (row.is_clean and row.digest == "d1")])


def test_notes_tell_of_missing_and_uneven_categories_and_of_nothing_else():
    assert notes(CONFIG, designed(320)) == []
    shown = [each for each in designed(320) if each.truth not in ("cat", "oven")]
    assert any("cat, oven" in note for note in notes(CONFIG, shown))
    few = [
        each for each in designed(320)
        if each.truth != "dog" or each.role != "main" or each.images[0].is_clean
    ]  # fmt: skip
    assert any("category" in note and "dog" in note for note in notes(CONFIG, few))


# Same or different


ONE = (("blur", "noise"),)


def pairs_of(rows, questions=ONE, per_pair=20, seed=0):
    return matched_pairs(rows, questions, per_pair, 5, seed)


corrupted = st.builds(
    lambda count, each, seed: [
        row for row in test_set(count, each=each, seed=seed) if not row.is_clean
    ],
    st.integers(2, 30), st.integers(1, 3), st.integers(0, 10_000),
)  # fmt: skip


@given(corrupted, st.integers(1, 12))
def test_half_are_same_and_an_image_never_meets_itself(rows, half):
    try:
        stimuli = pairs_of(rows, per_pair=2 * half)
    except UsageError as error:
        assert "source images for the main trials" in str(error) or "do not overlap" in str(error)
        return
    assert len(stimuli) == 2 * half
    kinds = Counter()
    for each in stimuli:
        one, two = each.images
        assert one.digest != two.digest and min(one.change, two.change) >= 0.02
        assert each.pair == "blur|noise" and each.capacity == 5 and each.role == "main"
        assert {one.corruption, two.corruption} <= {"blur", "noise"}
        assert each.truth == ("same" if one.corruption == two.corruption else "different")
        kinds[each.truth if each.truth == "different" else one.corruption] += 1
    assert kinds["different"] == half
    assert kinds["blur"] == (half + 1) // 2 and kinds["noise"] == half // 2


@given(st.integers(2, 4), st.integers(0, 10_000))
def test_a_match_is_within_the_tolerance_or_the_best_there_is(count, seed):
    rows = [row for row in test_set(count, each=3, seed=seed) if not row.is_clean]
    by_name = {
        name: [row for row in rows if row.corruption == name and row.change >= 0.02]
        for name in NAMES
    }
    try:
        stimuli = pairs_of(rows, per_pair=4)
    except UsageError:
        reject()
    assert len(stimuli) >= 4
    for each in stimuli:
        names = [row.corruption for row in each.images]
        best = min(
            abs(one.change - two.change)
            for one, two in product(by_name[names[0]], by_name[names[1]])
            if one.digest != two.digest
        )
        one, two = each.images
        assert abs(one.change - two.change) <= max(0.02, best) + 1e-4


def test_same_and_different_cover_the_same_visual_change():
    rows = [row for row in test_set(150, seed=4) if not row.is_clean]
    stimuli = pairs_of(rows, per_pair=40)
    steps = {}
    for each in stimuli:
        steps.setdefault(each.truth, []).append(np.mean([row.change for row in each.images]))
    own = [row.change for row in rows if row.corruption in ("blur", "noise") and row.change >= 0.02]
    wanted = np.quantile(own, 0) + (np.arange(20) + 0.5) / 20 * (np.max(own) - np.min(own))
    for truth in ("same", "different"):
        assert np.abs(np.array(steps[truth]) - wanted).max() < 0.06


def test_left_and_right_and_same_and_different_are_unrelated():
    rows = [row for row in test_set(200, seed=1) if not row.is_clean]
    questions = [
        ("blur", "fog"),
        ("blur", "noise"),
        ("fog", "noise"),
    ]
    stimuli = pairs_of(rows, questions, per_pair=80)
    different = [each for each in stimuli if each.truth == "different"]
    first = sum(each.images[0].corruption < each.images[1].corruption for each in different)
    assert 40 < first < 80  # of 120


def test_images_are_used_evenly():
    rows = [row for row in test_set(60, each=6, seed=2) if not row.is_clean]
    uses = source_loads(pairs_of(rows, per_pair=120))
    # 240 places for 60 images
    assert len(uses) == 60 and max(uses.values()) <= 5 * 6


def test_pairs_depend_on_the_seed_alone():
    rows = [row for row in test_set(40) if not row.is_clean]
    assert pairs_of(rows, seed=1) == pairs_of(rows, seed=1) != pairs_of(rows, seed=2)


def test_corruptions_with_no_visual_change_in_common_are_rejected():
    rows = test_set(20, delta_v=lambda name, random: 0.1 if name == "blur" else 0.8)
    with pytest.raises(UsageError, match="do not overlap"):
        pairs_of([row for row in rows if not row.is_clean])


def test_obvious_trials_show_strong_change_that_nobody_confuses():
    rows = test_set(200, seed=3)
    shown = obvious_pairs(group_by_source(rows), {"practice": 8, "catch": 9}, 0)
    limit = {
        name: sorted(row.change for row in rows if row.corruption == name)[int(0.8 * 399)]
        for name in NAMES
    }
    assert Counter((each.role, each.truth) for each in shown) == {
        ("practice", "same"): 4, ("practice", "different"): 4,
        ("catch", "same"): 5, ("catch", "different"): 4,
    }  # fmt: skip
    used = [row.digest for each in shown for row in each.images]
    assert len(used) == len(set(used)) == 34
    assert {row.corruption for each in shown for row in each.images} == set(NAMES)
    for each in shown:
        names = sorted(row.corruption for row in each.images)
        if each.truth == "same":
            assert names[0] == names[1]
        else:
            assert names[0] != names[1]
        assert all(row.change >= limit[row.corruption] for row in each.images)


def test_where_all_corruptions_are_of_one_kind_a_clean_image_is_what_differs():
    rows = test_set(100, names=("gaussian_blur", "vcr/median_blur"), seed=3)
    shown = obvious_pairs(group_by_source(rows), {"practice": 8}, 0)
    for each in shown:
        assert sum(row.is_clean for row in each.images) == (each.truth == "different")
    assert any("all corruptions are easily confused" in note for note in notes(PAIRS, shown))


def test_weak_corruptions_are_used_for_obvious_trials_only_if_there_are_no_others():
    def weak(name, random):
        return random.random() * (0.3 if name == "blur" else 0.9)

    def weaker(name, random):
        return weak(name, random) / 2

    for change, expected in ((weak, {"fog", "noise"}), (weaker, 1)):
        rows = test_set(100, delta_v=change)
        shown = obvious_pairs(group_by_source(rows), {"practice": 8}, 0)
        names = {row.corruption for each in shown for row in each.images} - {"clean"}
        assert names == expected or len(names) == expected
        told = [note for note in notes(PAIRS, shown) if "no corruption reaches" in note]
        assert bool(told) == (change is weaker)


def test_a_study_of_pairs_keeps_its_parts_apart():
    sources = group_by_source(test_set(120))
    questions = [("blur", "fog"), ("fog", "noise")]
    shown = design_pairs(sources, questions, 20, PAIRS, seed=0, catch_pool=None)
    digests = {
        role: {row.digest for each in shown if each.role == role for row in each.images}
        for role in ("main", "practice", "qualification", "catch")
    }
    assert sum(map(len, digests.values())) == len(set.union(*digests.values()))
    assert Counter(each.pair for each in shown if each.role == "main") == {
        "blur|fog": 20, "fog|noise": 20,
    }  # fmt: skip
    assert all(each.pair is None for each in shown if each.role != "main")


def test_a_participant_who_would_run_out_of_images_is_foreseen():
    rows = test_set(60)
    # blur is there for three images only, so that a person can have three trials with it
    rows = [row for row in rows if row.corruption != "blur" or row.digest in ("d1", "d2", "d3")]
    config = changed(PAIRS, practice=0, qualification=0, catch=0, trials=25)
    with pytest.raises(UsageError, match=r"only \d+ of 25 trials"):
        design_pairs(
            group_by_source(rows),
            [("blur", "noise")],
            60,
            config,
            seed=0,
            catch_pool=None,
        )


@pytest.mark.parametrize("count", [40, 60, 90])
def test_whoever_follows_the_advice_gets_a_study(count):
    sources, trials = group_by_source(test_set(count)), 100
    advised = []

    def design():
        config = changed(PAIRS, trials=trials)
        return design_pairs(sources, [("blur", "fog")], 20, config, seed=0, catch_pool=None)

    while True:
        try:
            design()
            break
        except UsageError as error:
            assert "--per-pair" not in str(error)
            trials = int(re.search(r"lower --trials to (?:at most )?(\d+)", str(error))[1])
            advised.append(trials)
    # first how many there are images for, then how many one participant can have
    assert advised == sorted(advised, reverse=True) and 1 <= len(advised) <= 2


def test_lowering_the_number_of_trials_is_not_advised_where_it_cannot_help():
    with pytest.raises(
        UsageError, match=r"lower --practice, --qualification, --catch and --trials"
    ):
        design_pairs(
            group_by_source(test_set(20)), [("blur", "fog")], 20, PAIRS, seed=0,
            catch_pool=None,
        )  # fmt: skip


@given(st.integers(2, 9), st.integers(1, 12), st.integers(0, 1000))
def test_what_a_participant_can_have_is_a_set_of_trials_without_a_common_image(count, pairs, seed):
    rows = [row for row in test_set(count, each=1) if row.corruption == "blur"]
    random = np.random.default_rng(seed)
    chosen = [random.choice(count, 2, replace=False) for _ in range(pairs)]
    stimuli = [PlannedStimulus("main", "same", 1, (rows[a], rows[b])) for a, b in chosen]
    most = 0
    for subset in range(1 << pairs):
        members = [place for place in range(pairs) if subset >> place & 1]
        used = [digest for place in members for digest in chosen[place].tolist()]
        if len(used) == len(set(used)):
            most = max(most, len(members))
    found = trials_within_reach(stimuli, seed)
    # whoever cannot go on has at least half of what is possible
    assert most / 2 <= found <= most


# What it takes


def test_the_papers_figure_of_five_and_a_half_hours():
    config = changed(CONFIG, fixation_ms=300, stimulus_ms=200, mask_ms=0, response_ms=1500)
    assert trial_seconds(config) == 2
    budget = plan_budget(config, 2000 * 5, {str(n): 5 for n in range(2000)}, Prices())
    assert budget.hours == pytest.approx(5.5555, abs=1e-4)


def test_a_budget_is_what_one_reckons_by_hand():
    config = StudyConfig(name="s", title="S")
    # 90 s of reading, 140 trials of 2.2 s, 16 s of feedback, one break of 20 s
    assert participant_seconds(config) == pytest.approx(90 + 140 * 2.2 + 16 + 20)
    budget = plan_budget(config, 10_000, {str(n): 5 for n in range(2000)}, Prices())
    assert (budget.by_trials, budget.by_source, budget.participants) == (100, 5, 125)
    assert budget.minutes == 8  # 434 s
    # with Prolific's fee for universities, unless another one is chosen
    assert budget.cost == pytest.approx(125 * 8 / 60 * 12 * 1.333) == pytest.approx(266.6)
    given = plan_budget(config, 10_000, {"a": 5}, Prices(pay=9, fee=0, excluded=0), minutes=10)
    assert (given.participants, given.cost) == (100, pytest.approx(150))
    # 1 / (1 − 0.9) is a little more than 10 in a computer
    assert plan_budget(changed(config, trials=7), 7, {}, Prices(excluded=0.9)).participants == 10


def test_two_images_are_looked_at_until_there_is_an_response():
    config = changed(PAIRS, response_ms=0)
    assert trial_seconds(config) == pytest.approx(0.3 + 3)
    assert trial_seconds(changed(config, show_ms=500, response_ms=2000)) == pytest.approx(2.8)


def test_an_image_that_is_asked_for_often_needs_as_many_humans():
    config = changed(CONFIG, trials=50)
    budget = plan_budget(config, 700, {"a": 200, **{str(n): 5 for n in range(100)}}, Prices())
    assert (budget.by_trials, budget.by_source, budget.counting) == (14, 200, 200)
    assert budget.participants == 250


@given(st.lists(st.integers(1, 12), min_size=3, max_size=14), st.integers(1, 3))
def test_so_many_participants_suffice_and_one_fewer_does_not(loads, trials):
    config = changed(CONFIG, trials=trials)
    named = {str(place): load for place, load in enumerate(loads)}
    budget = plan_budget(config, sum(loads), named, Prices(excluded=0))
    left, humans = Counter(named), 0
    # whoever comes is shown the images that want the most responses, each once
    while +left:
        humans += 1
        for name, _ in left.most_common(trials):
            left[name] -= 1
    assert humans == budget.participants


@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(1, 4)), min_size=3, max_size=25),
    st.integers(1, 4), st.integers(0, 1000),
)  # fmt: skip
def test_no_order_of_handing_out_needs_fewer_participants(stimuli, trials, seed):
    random = np.random.default_rng(seed)
    loads = Counter()
    for source, capacity in stimuli:
        loads[str(source)] += capacity
    budget = plan_budget(changed(CONFIG, trials=trials), loads.total(), loads, Prices(excluded=0))
    taken, humans = np.zeros(len(stimuli), int), 0
    wanted = np.array([capacity for _, capacity in stimuli])
    shuffle = random.random(len(stimuli))
    while (taken < wanted).any():
        humans += 1
        seen = set()
        for _ in range(trials):
            free = [
                place for place in range(len(stimuli))
                if taken[place] < wanted[place] and stimuli[place][0] not in seen
            ]  # fmt: skip
            if free:
                chosen = min(free, key=lambda place: (taken[place], shuffle[place]))
                taken[chosen] += 1
                seen.add(stimuli[chosen][0])
    assert humans >= budget.participants


@given(st.integers(1, 5000), st.floats(0, 0.95))
def test_enough_are_recruited_that_those_left_are_enough(counting, excluded):
    config = changed(CONFIG, trials=1)
    budget = plan_budget(config, counting, {}, Prices(excluded=excluded))
    assert budget.participants * (1 - excluded) >= counting - 1e-6
    assert (budget.participants - 1) * (1 - excluded) < counting


@pytest.mark.parametrize(
    ("prices", "word"),
    [(Prices(pay=-1), "pay"), (Prices(pay=float("nan")), "pay"), (Prices(fee=-0.1), "fee"),
     (Prices(excluded=1), "expect-excluded"), (Prices(excluded=-0.1), "expect-excluded")],
)  # fmt: skip
def test_prices_that_cannot_be_are_rejected(prices, word):
    with pytest.raises(UsageError, match=f"{word} must be"):
        prices.check()
