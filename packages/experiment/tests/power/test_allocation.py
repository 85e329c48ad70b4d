"""Adaptive allocation: where the curve is least certain, and how many responses that saves."""

import numpy as np
import pytest
from sqlalchemy import select, update

from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.testsets.plan import CLEAN
from eyechart_experiment.power.allocation_simulation import responses_needed
from eyechart_experiment.server.adaptive_allocation import (
    BINS,
    Group,
    GroupCount,
    add_up,
    group_of,
    groups_in_order,
    read_counts,
)
from eyechart_experiment.storage.database_tables import CLEAN as stored_name
from eyechart_experiment.storage.database_tables import (
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)


def test_every_visual_change_lies_within_the_limits_of_its_bin():
    for delta_v in (0.0, 0.1, 0.2999999, 0.3, 0.95, 1.0):
        low, high = group_of("blur", delta_v).limits
        assert low <= delta_v < high
    assert stored_name == CLEAN
    assert group_of("blur", 1.0).number == BINS - 1 and group_of(CLEAN, 0.0).number == 0


def test_the_widest_interval_comes_first_and_full_groups_do_not_come():
    counts = {
        Group("blur", 0): GroupCount(50, 20, 20, 20),  # certain
        Group("blur", 5): GroupCount(50, 20, 20, 10),  # as uncertain as can be
        Group("blur", 6): GroupCount(50, 40, 40, 20),
        Group("blur", 9): GroupCount(20, 20, 20, 10),  # full
        Group("noise", 2): GroupCount(50, 0, 0, 0),  # nothing is known
    }
    order = [(group.corruption, group.number) for group in groups_in_order(counts)]
    assert order == [("noise", 2), ("blur", 5), ("blur", 6), ("blur", 0)]
    # trials that are handed out count, or all of them would go to the same group
    counts[Group("blur", 5)].taken += 30
    assert groups_in_order(counts)[1] == Group("blur", 6)


def test_clean_images_keep_their_share():
    counts = {CLEAN_GROUP: GroupCount(wanted=100), Group("blur", 3): GroupCount(wanted=300)}
    for _ in range(40):
        counts[groups_in_order(counts)[0]].taken += 1
    assert counts[CLEAN_GROUP].taken == 10
    assert add_up([(CLEAN_GROUP, GroupCount(2, 1, 1, 0))] * 3)[CLEAN_GROUP] == GroupCount(
        6, 3, 3, 0
    )


CLEAN_GROUP = Group(CLEAN, 0)


def test_the_server_spends_responses_where_accuracy_is_uncertain(tmp_path):
    sizes = Sizes(main=60, stimuli=2)
    nothing = {"practice": 0, "qualification": 0, "catch": 0, "trials": 20, "k": 20}
    folder = make_study(tmp_path / "study", sizes=sizes, allocation="adaptive", **nothing)
    random = np.random.default_rng(0)
    with in_process(folder) as client:
        clean = select(StimulusImageRow.stimulus_id).where(StimulusImageRow.corruption == CLEAN)
        with client.database.writing() as db:
            db.execute(update(StimulusRow).where(StimulusRow.id.in_(clean)).values(capacity=0))
        for _ in range(4):
            visitor = Visitor(client).begin()
            for _ in range(20):
                trial = visitor.next()["trial"]["id"]
                with client.database.reading() as db:
                    row = db.execute(
                        select(StimulusRow.truth, StimulusImageRow.delta_v)
                        .join(StimulusImageRow)
                        .join(TrialRow, TrialRow.stimulus_id == StimulusRow.id)
                        .where(TrialRow.public_id == trial)
                    ).one()
                # weak corruption is easy and strong corruption hopeless
                knows = row.delta_v < 0.4 or (row.delta_v < 0.6 and random.random() < 0.5)
                wrong = "dog" if row.truth != "dog" else "cat"
                assert visitor.response(trial, row.truth if knows else wrong).status_code == 200
        with client.database.reading() as db:
            counts = read_counts(db, client.study.id)
            seen = db.execute(
                select(TrialRow.session_id, StimulusImageRow.source_id).join(
                    StimulusImageRow, StimulusImageRow.stimulus_id == TrialRow.stimulus_id
                )
            ).all()
            over = db.scalars(
                select(StimulusRow.id).where(StimulusRow.taken > StimulusRow.capacity)
            )
            assert not over.all()
    assert len(seen) == len(set(seen)) == 80
    corrupted = {group: count for group, count in counts.items() if group.corruption != CLEAN}
    assert sum(count.n_responses for count in counts.values()) == 80
    uncertain = [count for group, count in corrupted.items() if group.number in (4, 5)]
    certain = [count for group, count in corrupted.items() if group.number not in (4, 5)]
    share = [np.mean([count.n_responses for count in part]) for part in (uncertain, certain)]
    assert share[0] > share[1]


@pytest.mark.slow
def test_adaptive_allocation_needs_fewer_responses_for_the_same_interval():
    needed = [responses_needed(half_width=0.02, seed=seed) for seed in range(12)]
    uniform, adaptive = (
        np.mean([getattr(one, name).n_responses for one in needed])
        for name in ("uniform", "adaptive")
    )
    # 0.75 in 50 simulations
    assert 0.6 < adaptive / uniform < 0.9
    hits = [one.adaptive.interval[0] <= one.true_area <= one.adaptive.interval[1] for one in needed]
    assert np.mean(hits) > 0.6
