"""Describe in words what a planned study can show."""

from collections import Counter

from eyechart.stats.intervals import CONFIDENCE
from eyechart_experiment.design.planning import StudyPlan
from eyechart_experiment.design.stimulus_design import MAIN
from eyechart_experiment.power.pair_power import POWER, PairPower, pair_power
from eyechart_experiment.power.precision import (
    BEHIND,
    ExpectedPrecision,
    expected_precision,
)
from eyechart_experiment.power.simulated_study import AGREEMENT, stimulus_tables
from eyechart_experiment.simulate.psychometric import Psychometric


def power_text(plan: StudyPlan) -> str:
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


def _pair_lines(plan: StudyPlan) -> str:
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
