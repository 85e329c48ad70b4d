"""Describe a study's plan in words: its stimuli, their balance, time and cost, and its power."""

from collections import Counter
from collections.abc import Mapping, Sequence

from eyechart.core.phrases import count_of, verb
from eyechart.humans.human_responses import SAME
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart.stats.intervals import CONFIDENCE
from eyechart_experiment.design.pair_design import OBVIOUS, TOLERANCE
from eyechart_experiment.design.planning import StudyPlan
from eyechart_experiment.design.power import (
    AGREEMENT,
    BEHIND,
    POWER,
    expected_precision,
    pair_power,
    stimulus_tables,
)
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.design.stimulus_design import (
    CATCH,
    MAIN,
    PRACTICE,
    QUALIFICATION,
    PlannedStimulus,
)
from eyechart_experiment.study_config import StudyConfig

UNEVEN = 1.5
"""A note is shown if the ratio of the largest to the smallest count exceeds this value."""

BINS = 10


def plan_text(plan: StudyPlan, side: int) -> str:
    """Return the plan as several lines of text, for images `side` px wide and high."""
    config, stimuli = plan.config, plan.stimuli
    is_pairs = config.kind == "same-different"
    lines = [f"Study {config.name}: {config.title} ({config.kind}, {side} px)"]
    lines += _what_is_shown(stimuli)
    if is_pairs:
        lines += _pairs(stimuli)
    else:
        categories = ", ".join(f"{name} {n}" for name, n in _by_category(stimuli).items())
        lines.append(f"Stimuli by category: {categories}")
    lines += _corruptions(stimuli)
    advice = notes(config, stimuli)
    roles = {stimulus.role for stimulus in stimuli} - plan.chosen.keys()
    drawn = [role for role in (QUALIFICATION, CATCH) if role in roles]
    if drawn and not is_pairs:
        options = " and ".join(f"--{role}-images" for role in drawn)
        advice.append(
            f"images of {' and '.join(drawn)} trials are drawn at random, and an attentive"
            f" participant may not recognize all of them: choose easy ones with {options}."
        )
    if plan.left_out:
        advice.append(
            f"{count_of(plan.left_out, 'corrupted image')} {verb(plan.left_out, 'is')} left out,"
            " because Δv cannot be measured."
        )
    lines += [f"Note: {note}" for note in advice]
    lines += _budget(plan)
    lines += _pair_power(plan) if is_pairs else _precision(stimuli, plan.request.seed)
    return "\n".join(lines) + "\n"


def notes(config: StudyConfig, stimuli: Sequence[PlannedStimulus]) -> list[str]:
    """Return notes about points that the experimenter should check, one sentence each."""
    advice = []
    if config.kind == "categorise":
        counts = _by_category(stimuli)
        missing = [name for name in CATEGORIES if not counts.get(name)]
        if missing:
            advice.append(f"the main trials show no images of {', '.join(missing)}.")
        advice += _uneven("category", counts)
    else:
        gaps = _gaps(stimuli)
        wide = {name: max(values) for name, values in gaps.items() if max(values) > TOLERANCE}
        if wide:
            worst = max(wide, key=lambda name: wide[name])
            advice.append(
                f"in {len(wide)} of {len(gaps)} pairs, the Δv of two images shown together differs"
                f" by more than {TOLERANCE:g}, up to {wide[worst]:.3f} for {worst}."
            )
        reserved = [row for stimulus in stimuli if stimulus.role != MAIN for row in stimulus.images]
        if max((row.change for row in reserved if not row.is_clean), default=1.0) < OBVIOUS:
            advice.append(
                f"no corruption reaches Δv {OBVIOUS:g}, so practice, qualification and catch"
                " trials may not be obvious to everybody."
            )
        if any(row.is_clean for stimulus in stimuli for row in stimulus.images):
            advice.append(
                "all corruptions are easily confused with each other, so 'different' pairs in the"
                " practice, qualification and catch trials show a clean image beside a corrupted"
                " one, which main trials never do: add a clearly different corruption to the test"
                " set, and name the pairs to compare with --pair."
            )
    changes = _by_corruption(stimuli)
    return advice + _uneven("corruption", {name: len(values) for name, values in changes.items()})


def _what_is_shown(stimuli: Sequence[PlannedStimulus]) -> list[str]:
    main = [stimulus for stimulus in stimuli if stimulus.role == MAIN]
    sources = {row.digest for stimulus in main for row in stimulus.images}
    clean = sum(stimulus.images[0].is_clean for stimulus in main)
    kinds = Counter(stimulus.capacity for stimulus in main if not stimulus.images[0].is_clean)
    clean_kinds = Counter(stimulus.capacity for stimulus in main if stimulus.images[0].is_clean)
    parts = [f"{count:,} with {k} responses each" for k, count in kinds.items()]
    parts += [f"{clean:,} clean with {k} each" for k in clean_kinds]
    roles = Counter(stimulus.role for stimulus in stimuli)
    return [
        f"Main part: {len(main):,} stimuli from {len(sources):,} source images: {', '.join(parts)}",
        f"Reserved: {roles[PRACTICE]} stimuli for practice, {roles[QUALIFICATION]} for"
        f" qualification, {roles[CATCH]} for catch trials",
    ]


def _pairs(stimuli: Sequence[PlannedStimulus]) -> list[str]:
    lines = ["Trials per pair of corruptions, and the difference in Δv within a trial:"]
    truths = Counter((stimulus.pair, stimulus.truth) for stimulus in stimuli if stimulus.pair)
    for name, gaps in _gaps(stimuli).items():
        same, total = truths[name, SAME], len(gaps)
        lines.append(
            f"  {name.replace('|', ' and ')}: {same} same and {total - same} different, mean"
            f" difference {sum(gaps) / total:.3f}, at most {max(gaps):.3f}"
        )
    return lines


def _corruptions(stimuli: Sequence[PlannedStimulus]) -> list[str]:
    lines = ["Images per corruption, and the range of visual change that they cover:"]
    for name, values in sorted(_by_corruption(stimuli).items()):
        reached = len({min(BINS - 1, int(value * BINS)) for value in values})
        lines.append(
            f"  {name}: {len(values):,}, Δv {min(values):.2f} to {max(values):.2f},"
            f" samples in {reached} of {BINS} bins"
        )
    return lines


def _budget(plan: StudyPlan) -> list[str]:
    config, collection = plan.config, plan.collection
    budget, prices = plan.budget, plan.prices
    share = f"{collection.complete_share:.0%} of the simulated studies end with all responses"
    if collection.is_complete:
        end = (
            f"Admission: for at least {config.min_main} main trials; {share}, and"
            f" {collection.n_short:.0f} of the participants get less than half of their trials"
        )
    else:
        end = (
            f"Note: only {share}, because participants are admitted only for {config.min_main} main"
            f" trials or more; {collection.n_incomplete:.0f} stimuli lack responses on average. Set"
            " min_trials to 1 to complete them."
        )
    counting = (
        f"Participants whose responses count: {budget.counting:,}, the larger of"
        f" {budget.by_trials:,} (with {config.trials} trials each) and {budget.by_source:,} (the"
        " most requested source image, which nobody sees twice)"
    )
    if budget.by_source > budget.by_trials:
        counting += (
            ": the number of source images is the limit, so some participants will get fewer"
            " trials; a test set from more source images would need fewer participants"
        )
    return [
        f"Responses wanted: {budget.responses:,}, {budget.hours:.2f} hours of trials",
        counting,
        f"Participants to recruit: {budget.participants:,}, if {prices.excluded:.0%} are excluded"
        f" and {prices.leaving:.0%} leave (simulated)",
        end,
        f"Time: about {budget.seconds / 60:.1f} minutes each, paid as {budget.minutes}",
        f"Cost: {budget.cost:,.2f} {prices.currency}, at {prices.pay:g} per hour plus a fee of"
        f" {prices.fee_text}",
    ]


def _precision(stimuli: Sequence[PlannedStimulus], seed: int) -> list[str]:
    """Return the intervals to expect for the corruptions with the fewest and the most responses."""
    tables = sorted(stimulus_tables(stimuli), key=lambda table: table.n_responses)
    ends = {table.corruption: table for table in (tables[0], tables[-1])} if tables else {}
    if len(tables) > 1 and tables[0].n_responses == tables[-1].n_responses:
        # With equal numbers, the second line would say the same as the first.
        ends.popitem()
    human = Psychometric()
    lines = [
        f"Precision to expect ({CONFIDENCE:.0%} intervals, simulated: humans lose half of their"
        f" accuracy at Δv {human.middle:g}, the model at {human.middle - BEHIND:g}, and two"
        f" participants' responses to an image correlate by {AGREEMENT:g}):"
    ]
    for name, table in ends.items():
        expected = expected_precision(table, seed=seed)
        if expected is None:
            text = "too few stimuli for a curve; make a test set with more samples"
        else:
            (area, area_margin), (hmri, hmri_margin) = expected
            text = f"R_a^h {area:.2f} ± {area_margin:.3f}, HMRI {hmri:.2f} ± {hmri_margin:.3f}"
        lines.append(f"  {name} ({table.n_responses:,} responses): {text}")
    return lines


def _pair_power(plan: StudyPlan) -> list[str]:
    by_pair: Counter[str] = Counter()
    for stimulus in plan.stimuli:
        if stimulus.role == MAIN and stimulus.pair is not None:
            by_pair[stimulus.pair] += stimulus.capacity or 0
    # Every pair can show at least what the one with the fewest responses can.
    n_responses = min(by_pair.values())
    detectable, alike = pair_power(
        n_responses, plan.budget.counting, len(by_pair), plan.request.seed
    )
    if detectable is None:
        text = "too few responses to tell any accuracy apart from guessing; raise --k"
    else:
        text = (
            f"told apart with {POWER:.0%} probability if humans are correct in at least"
            f" {detectable:.0%} of the trials; if they can only guess, that is shown with"
            f" {alike:.0%} probability"
        )
    return [f"Power to expect for each pair ({n_responses:,} responses): {text}"]


def _by_category(stimuli: Sequence[PlannedStimulus]) -> dict[str, int]:
    counts = Counter(stimulus.truth for stimulus in stimuli if stimulus.role == MAIN)
    return {name: counts[name] for name in CATEGORIES if counts[name]}


def _by_corruption(stimuli: Sequence[PlannedStimulus]) -> dict[str, list[float]]:
    """Return the Δv of all corrupted images of the main trials, grouped by corruption."""
    changes: dict[str, list[float]] = {}
    for stimulus in stimuli:
        for row in stimulus.images if stimulus.role == MAIN else ():
            if not row.is_clean:
                changes.setdefault(row.corruption, []).append(row.change)
    return changes


def _uneven(group: str, counts: Mapping[str, int]) -> list[str]:
    if not counts:
        return []
    most, fewest = (pick(counts, key=lambda name: counts[name]) for pick in (max, min))
    if counts[most] <= UNEVEN * counts[fewest]:
        return []
    return [
        f"in the main trials, the {group} {most} has {counts[most]} stimuli, but {fewest} has only"
        f" {counts[fewest]}."
    ]


def _gaps(stimuli: Sequence[PlannedStimulus]) -> dict[str, list[float]]:
    """Return the difference in Δv within each trial, grouped by pair of corruptions."""
    gaps: dict[str, list[float]] = {}
    for stimulus in stimuli:
        if stimulus.pair is not None:
            one, two = stimulus.images
            gaps.setdefault(stimulus.pair, []).append(abs(one.change - two.change))
    return gaps
