"""Describe a study's plan in words: its stimuli, how balanced they are, and its time and cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from eyechart.core.phrases import count_of, verb
from eyechart.humans.human_responses import SAME
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart.stats.intervals import CONFIDENCE
from eyechart_experiment.design.budget import Budget, Collection, Prices
from eyechart_experiment.design.pair_design import OBVIOUS, TOLERANCE
from eyechart_experiment.design.power import (
    AGREEMENT,
    BEHIND,
    POWER,
    ExpectedPrecision,
    PairPower,
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

if TYPE_CHECKING:
    from eyechart_experiment.design.planning import StudyPlan

UNEVEN = 1.5
"""A note is shown if the ratio of the largest to the smallest count exceeds this value."""

BINS = 10


def plan_text(
    config: StudyConfig,
    side: int,
    stimuli: Sequence[PlannedStimulus],
    budget: Budget,
    collection: Collection,
    *,
    prices: Prices,
    left_out: int = 0,
    drawn: Sequence[str] = (),
) -> str:
    """Return the plan as several lines of text.

    `side` is the width and height of the images in px; `left_out` is the number of corrupted images
    whose Δv cannot be measured; `drawn` are the roles whose images were drawn at random.
    """
    lines = [f"Study {config.name}: {config.title} ({config.kind}, {side} px)"]
    lines += _what_is_shown(stimuli)
    lines += _pairs(stimuli) if config.kind == "same-different" else _categories(stimuli)
    lines += _corruptions(stimuli)
    advice = notes(config, stimuli)
    if drawn and config.kind == "categorise":
        options = " and ".join(f"--{role}-images" for role in drawn)
        advice.append(
            f"images of {' and '.join(drawn)} trials are drawn at random, and an attentive"
            f" participant may not recognize all of them: choose easy ones with {options}."
        )
    if left_out:
        advice.append(
            f"{count_of(left_out, 'corrupted image')} {verb(left_out, 'is')} left out, because Δv"
            " cannot be measured."
        )
    lines += [f"Note: {note}" for note in advice]
    return "\n".join([*lines, *_budget(config, budget, prices, collection)]) + "\n"


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
        if _strongest_obvious(stimuli) < OBVIOUS:
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
    return advice + _uneven("corruption", _by_corruption(stimuli))


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


def _categories(stimuli: Sequence[PlannedStimulus]) -> list[str]:
    counts = _by_category(stimuli)
    return ["Stimuli by category: " + ", ".join(f"{name} {counts[name]}" for name in counts)]


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
    changes: dict[str, list[float]] = {}
    for stimulus in stimuli:
        for row in stimulus.images if stimulus.role == MAIN else ():
            if not row.is_clean:
                changes.setdefault(row.corruption, []).append(row.change)
    lines = ["Images per corruption, and the range of visual change that they cover:"]
    for name, values in sorted(changes.items()):
        reached = len({min(BINS - 1, int(value * BINS)) for value in values})
        lines.append(
            f"  {name}: {len(values):,}, Δv {min(values):.2f} to {max(values):.2f},"
            f" samples in {reached} of {BINS} bins"
        )
    return lines


def _budget(
    config: StudyConfig, budget: Budget, prices: Prices, collection: Collection
) -> list[str]:
    more = budget.by_source > budget.by_trials
    return [
        f"Responses wanted: {budget.responses:,}, {budget.hours:.2f} hours of trials",
        f"Participants whose responses count: {budget.counting:,}, the larger of"
        f" {budget.by_trials:,} (with {config.trials} trials each) and {budget.by_source:,} (the"
        " most requested source image, which nobody sees twice)"
        + (
            ": the number of source images is the limit, so some participants will get fewer"
            " trials; a test set from more source images would need fewer participants"
            if more
            else ""
        ),
        f"Participants to recruit: {budget.participants:,}, if {prices.excluded:.0%} are excluded"
        f" and {prices.leaving:.0%} leave (simulated)",
        _end(config, collection),
        f"Time: about {budget.seconds / 60:.1f} minutes each, paid as {budget.minutes}",
        f"Cost: {budget.cost:,.2f} {prices.currency}, at {prices.pay:g} per hour plus a fee of"
        f" {prices.fee_text}",
    ]


def _end(config: StudyConfig, collection: Collection) -> str:
    """Return one line on how the simulated collection ends."""
    share = f"{collection.complete_share:.0%} of the simulated studies end with all responses"
    if not collection.is_complete:
        return (
            f"Note: only {share}, because participants are admitted only for {config.min_main} main"
            f" trials or more; {collection.n_incomplete:.0f} stimuli lack responses on average. Set"
            " min_trials to 1 to complete them."
        )
    return (
        f"Admission: for at least {config.min_main} main trials; {share}, and"
        f" {collection.n_short:.0f} of the participants get less than half of their trials"
    )


def _by_category(stimuli: Sequence[PlannedStimulus]) -> dict[str, int]:
    counts = Counter(stimulus.truth for stimulus in stimuli if stimulus.role == MAIN)
    return {name: counts[name] for name in CATEGORIES if counts[name]}


def _by_corruption(stimuli: Sequence[PlannedStimulus]) -> dict[str, int]:
    return dict(
        Counter(
            row.corruption
            for stimulus in stimuli
            if stimulus.role == MAIN
            for row in stimulus.images
            if not row.is_clean
        )
    )


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


def _strongest_obvious(stimuli: Sequence[PlannedStimulus]) -> float:
    values = [
        row.change
        for stimulus in stimuli
        if stimulus.role != MAIN
        for row in stimulus.images
        if not row.is_clean
    ]
    return max(values, default=1.0)


def power_text(plan: "StudyPlan") -> str:
    """Return lines that say what the planned numbers of stimuli and participants can show.

    For a categorization study with several corruptions, the ones with the fewest and with the most
    responses are simulated.
    """
    order = plan.order
    if order.config.kind == "same-different":
        return _pair_lines(plan)
    tables = sorted(stimulus_tables(order.stimuli), key=lambda table: table.n_responses)
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
        lines.append(_line(name, table.n_responses, expected_precision(table, seed=order.seed)))
    return "\n".join(lines) + "\n"


def _line(name: str, n_responses: int, expected: ExpectedPrecision | None) -> str:
    head = f"  {name} ({n_responses:,} responses): "
    if expected is None:
        return head + "too few stimuli for a curve; make a test set with more samples"
    return (
        f"{head}R_a^h {expected.area:.2f} ± {expected.area_half_width:.3f},"
        f" HMRI {expected.hmri:.2f} ± {expected.hmri_half_width:.3f}"
    )


def _pair_lines(plan: "StudyPlan") -> str:
    order = plan.order
    by_pair: Counter[str] = Counter()
    for stimulus in order.stimuli:
        if stimulus.role == MAIN and stimulus.pair is not None:
            by_pair[stimulus.pair] += stimulus.capacity or 0
    # Every pair can show at least what the one with the fewest responses can.
    n_responses = min(by_pair.values())
    power = pair_power(n_responses, plan.budget.counting, len(by_pair), order.seed)
    return f"Power to expect for each pair ({n_responses:,} responses): {_words(power)}\n"


def _words(power: PairPower) -> str:
    if power.detectable is None:
        return "too few responses to tell any accuracy apart from guessing; raise --k"
    return (
        f"told apart with {POWER:.0%} probability if humans are correct in at least"
        f" {power.detectable:.0%} of the trials; if they can only guess, that is shown with"
        f" {power.alike:.0%} probability"
    )
