"""The server of a study, asked as the page asks it, on SQLite and on PostgreSQL."""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from anyio.to_thread import current_default_thread_limiter
from sqlalchemy import func, select

from experiment_postgres import postgresql
from experiment_studies import SIDE, Sizes, Visitor, in_process, make_study
from eyechart_experiment.quality import judging
from eyechart_experiment.quality.judging import apply_rules
from eyechart_experiment.server.session_progress import SessionProgress, has_evaded
from eyechart_experiment.storage.database import THREADS
from eyechart_experiment.storage.database_tables import (
    ExclusionRow,
    ExposureRow,
    IdentityRow,
    ParticipantRow,
    ResponseRow,
    SessionRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.storage.withdrawal import forget_identities, withdraw
from eyechart_experiment.study_config import StudyConfig


# what only PostgreSQL can get wrong is in test_experiment_races.py and test_experiment_load.py
@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
)
def urls(request, tmp_path_factory):
    """Give a function that returns the URL of a new database."""
    if request.param == "sqlite":
        folder = tmp_path_factory.mktemp("databases")
        yield lambda: f"sqlite:///{folder}/{uuid4().hex}.sqlite"
        return
    import psycopg
    from sqlalchemy import make_url

    with postgresql() as url:

        def fresh():
            name = f"d{uuid4().hex}"
            with psycopg.connect(
                host=make_url(url).query["host"],
                user="eyechart",
                dbname="postgres",
                autocommit=True,
            ) as one:
                one.execute(f"CREATE DATABASE {name}")
            return url.replace("/postgres?", f"/{name}?")

        yield fresh


@pytest.fixture
def client(tmp_path, urls):
    with in_process(make_study(tmp_path / "study", url=urls())) as one:
        yield one


def truth(client, trial):
    with client.database.reading() as db:
        return db.scalar(
            select(StimulusRow.truth).join(TrialRow).where(TrialRow.public_id == trial)
        )


def go_on(visitor, right=True, until=None):
    """Respond to trials until there are none, or until a phase begins; return what comes then."""
    while True:
        step = visitor.next()
        if step["next"] != "trial" or step["trial"]["phase"] == until:
            return step
        said = truth(visitor.client, step["trial"]["id"])
        if not right:
            said = "cat" if said != "cat" else "dog"
        assert visitor.response(step["trial"]["id"], said).status_code == 200


def taken(client):
    """Return how often each main stimulus is taken, as the column says and as the trials say."""
    with client.database.reading() as db:
        says = dict(
            db.execute(
                select(StimulusRow.id, StimulusRow.taken).where(StimulusRow.role == "main")
            ).all()
        )
        out = Counter(
            db.scalars(
                select(TrialRow.stimulus_id)
                .join(StimulusRow)
                .where(StimulusRow.role == "main", TrialRow.state.in_(("live", "responded")))
            )
        )
    return says, {key: out[key] for key in says}


def test_a_participant_goes_from_consent_to_a_completion_code(client):
    visitor = Visitor(client).begin()
    phases = []
    while True:
        step = visitor.next()
        if step["next"] != "trial":
            break
        trial = step["trial"]
        phases.append(trial["phase"])
        reply = visitor.image(trial["images"][0])
        assert len(reply.content) == SIDE * SIDE * 3
        feedback = visitor.response(trial["id"], truth(client, trial["id"])).json()["feedback"]
        assert (feedback is not None) == (trial["phase"] == "practice")
    assert Counter(phases) == {"practice": 2, "qualification": 4, "main": 10}
    assert phases == sorted(phases, key=["practice", "qualification", "main"].index)
    assert step["next"] == "finish"
    done = visitor.finish().json()
    assert done["state"] == "finished" and len(done["completion"]["code"]) == 8
    assert visitor.finish().json() == done
    assert visitor.next()["next"] == "done"


def test_catch_trials_are_there_and_look_like_any_other(client):
    visitor = Visitor(client).begin()
    go_on(visitor)
    with client.database.reading() as db:
        roles = Counter(db.scalars(select(TrialRow.role)))
    assert roles == {"practice": 2, "qualification": 4, "catch": 2, "main": 8}


def test_whoever_fails_the_qualification_is_thanked_and_sees_no_more(client):
    visitor = Visitor(client).begin()
    step = go_on(visitor, right=False)
    assert step == {"trial": None, "next": "failed"}
    state = visitor.state()
    assert state["state"] == "failed" and state["responded"]["main"] == 0
    assert state["completion"]["way"] == "code"


def test_nobody_sees_an_image_twice_not_even_in_another_study(tmp_path, urls):
    url = urls()
    first = make_study(tmp_path / "first", "first", Sizes(main=14), url=url)
    secret = (tmp_path / "first" / "secret").read_text()
    second = make_study(tmp_path / "second", "second", Sizes(main=14), url=url, secret=secret)
    ids = {"client": "the-same-person"}
    for folder, name in ((first, "first"), (second, "second")):
        with in_process(folder) as client:
            visitor = Visitor(client, name, ids=ids).begin()
            assert go_on(visitor)["next"] == "finish"
            assert visitor.finish().status_code == 200
            with client.database.reading() as db:
                shown = db.scalars(
                    select(StimulusImageRow.source_id).join(
                        TrialRow, TrialRow.stimulus_id == StimulusImageRow.stimulus_id
                    )
                ).all()
                humans = db.scalar(select(func.count(ParticipantRow.id)))
                main = db.scalar(select(func.count(TrialRow.id)).where(TrialRow.role == "main"))
    assert humans == 1
    assert len(shown) == len(set(shown)) > 16
    # 8 of the 14 images of the main part are gone after the first study, so 6 trials are left
    assert main == 8 + 6


def test_many_at_once_never_take_a_stimulus_too_often_or_an_image_twice(tmp_path, urls):
    sizes = Sizes(main=12, stimuli=2)
    folder = make_study(tmp_path / "s", sizes=sizes, url=urls(), practice=0, qualification=0,
                        catch=0, trials=20, k=2, min_trials=1)  # fmt: skip
    problems = []
    with in_process(folder) as client:
        humans = [Visitor(client).begin() for _ in range(6)]

        def ask(visitor):
            try:
                while (step := visitor.next())["next"] == "trial":
                    assert visitor.response(step["trial"]["id"]).status_code == 200
            except BaseException as error:
                problems.append(error)

        # each in two threads, as if in two windows that share a tab's id
        threads = [threading.Thread(target=ask, args=(each,)) for each in humans * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        says, counted = taken(client)
        assert says == counted
        # 12 images of two stimuli each, two responses to each: four participants for each image
        assert set(counted.values()) == {2}
        with client.database.reading() as db:
            rows = db.execute(
                select(SessionRow.participant_id, StimulusImageRow.source_id)
                .select_from(TrialRow)
                .join(SessionRow)
                .join(StimulusImageRow, StimulusImageRow.stimulus_id == TrialRow.stimulus_id)
            ).all()
    assert len(rows) == len(set(rows))


def test_the_same_request_for_a_trial_gets_the_same_trial(client):
    visitor = Visitor(client).begin()
    key = str(uuid4())
    first = visitor.next(key)
    assert visitor.next(key) == first
    assert visitor.next()["trial"]["id"] != first["trial"]["id"]


def test_no_more_than_three_trials_are_out_at_once(client):
    visitor = Visitor(client).begin()
    go_on(visitor, until="main")
    assert [visitor.next()["next"] for _ in range(3)] == ["trial", "trial", "wait"]


def test_the_same_response_again_changes_nothing_and_another_is_rejected(client):
    visitor = Visitor(client).begin()
    trial = visitor.next()["trial"]["id"]
    body = {"uuid": str(uuid4()), "choice": "dog", "rt_ms": 300, "stamps": {}, "flags": []}
    first = visitor.put(trial, body)
    assert first.status_code == 200
    assert visitor.put(trial, body).json() == first.json()
    for other in ({"choice": "cat"}, {"uuid": str(uuid4())}, {"rt_ms": 301}):
        reply = visitor.put(trial, body | other)
        assert (reply.status_code, reply.json()["code"]) == (409, "responded")
    with client.database.reading() as db:
        assert db.scalar(select(func.count(ResponseRow.trial_id))) == 1


def test_another_tab_takes_over_and_the_first_is_told(client):
    visitor = Visitor(client).begin()
    out = visitor.next()["trial"]["id"]
    first = visitor.tab
    visitor.claim()
    second, visitor.tab = visitor.tab, first
    assert visitor.ask().json()["code"] == "another_tab"
    assert visitor.finish().json()["code"] == "another_tab"
    visitor.tab = second
    with client.database.reading() as db:
        assert db.scalar(select(TrialRow.state).where(TrialRow.public_id == out)) == "dropped"
    assert visitor.next()["trial"]["id"] != out


def test_a_dropped_trial_is_given_to_others_but_its_response_counts_if_it_comes_in_time(
    tmp_path, urls
):
    folder = make_study(tmp_path / "s", sizes=Sizes(main=1, stimuli=1), url=urls(), practice=0,
                        qualification=0, catch=0, trials=1, k=1)  # fmt: skip
    with in_process(folder) as client:
        slow = Visitor(client).begin()
        late = slow.next()["trial"]["id"]
        assert Visitor(client).join(expect=409)["code"] == "full"
        slow.claim()
        quick = Visitor(client).begin()
        assert slow.response(late).status_code == 200
        # now it is full: the other one finds nothing to do
        assert quick.next()["next"] == "finish"
        assert set(taken(client)[1].values()) == {1}


def test_a_response_that_comes_after_others_gave_it_is_gone(tmp_path, urls):
    folder = make_study(tmp_path / "s", sizes=Sizes(main=1, stimuli=1), url=urls(), practice=0,
                        qualification=0, catch=0, trials=1, k=1)  # fmt: skip
    with in_process(folder) as client:
        slow = Visitor(client).begin()
        late = slow.next()["trial"]["id"]
        slow.claim()
        quick = Visitor(client).begin()
        assert quick.response(quick.next()["trial"]["id"]).status_code == 200
        reply = slow.response(late)
        assert (reply.status_code, reply.json()["code"]) == (410, "gone")
        assert set(taken(client)[1].values()) == {1}


def test_a_lease_that_is_over_frees_the_stimulus(tmp_path, urls):
    now = [datetime.now(UTC)]
    folder = make_study(tmp_path / "s", sizes=Sizes(main=1, stimuli=1), url=urls(), practice=0,
                        qualification=0, catch=0, trials=1, k=1)  # fmt: skip
    with in_process(folder, clock=lambda: now[0]) as client:
        first = Visitor(client).begin()
        second = Visitor(client, ids={"client": "second"})
        out = first.next()["trial"]["id"]
        assert second.join(expect=409)["code"] == "full"
        now[0] += timedelta(minutes=16)
        second.begin()
        assert second.next()["trial"]["id"] != out
        # the first one comes again, and has seen it already
        assert first.next()["next"] == "finish"
        says, counted = taken(client)
        assert says == counted == dict.fromkeys(says, 1)


def test_responses_of_whoever_is_excluded_are_asked_of_others(tmp_path, urls):
    folder = make_study(tmp_path / "s", sizes=Sizes(main=30, stimuli=1), url=urls(), practice=0,
                        qualification=0, catch=8, trials=22, k=1)  # fmt: skip
    with in_process(folder) as client:
        spammer = Visitor(client).begin()
        go_on(spammer, right=False)
        assert spammer.finish().status_code == 200
        with client.database.reading() as db:
            assert "catch" in set(db.scalars(select(ExclusionRow.rule)))
            assert db.scalar(select(func.count(ResponseRow.trial_id))) == 30
        assert set(taken(client)[0].values()) == {0}


def test_withdrawing_deletes_everything_of_a_person_and_nothing_else(client):
    gone, stays = Visitor(client).begin(), Visitor(client).begin()
    go_on(gone), go_on(stays)
    code = gone.finish().json()["participant"]
    assert withdraw(client.study, code).n_responses == 16
    with client.database.reading() as db:
        for table, left in ((ParticipantRow, 1), (SessionRow, 1), (TrialRow, 16), (IdentityRow, 1)):
            assert db.scalar(select(func.count()).select_from(table)) == left
        assert db.scalar(select(func.count(ResponseRow.trial_id))) == 16
        assert db.scalar(select(func.count()).select_from(ExposureRow)) == 16
    says, counted = taken(client)
    assert says == counted
    assert gone.client.get("/api/session", headers=gone.headers).status_code == 401


def test_platform_ids_are_kept_apart_and_can_be_forgotten(client):
    ids = {"PROLIFIC_PID": "5f0c", "STUDY_ID": "s1", "SESSION_ID": "x9"}
    visitor = Visitor(client, platform="prolific", ids=ids).begin()
    with client.database.reading() as db:
        assert db.scalar(select(IdentityRow.ids)) == ids
        person = db.scalar(select(ParticipantRow))
        assert "5f0c" not in person.code + person.digest
    assert forget_identities(client.database, client.study.id) == 1
    with client.database.reading() as db:
        assert db.scalar(select(func.count()).select_from(IdentityRow)) == 0
    # and the person is still known again
    again = Visitor(client, platform="prolific", ids=ids, browser=visitor.browser)
    again.join(expect=200)
    assert again.state()["participant"] == visitor.state().get("participant", person.code)


def test_whoever_left_midway_and_breaks_a_rule_gives_back_its_responses(
    tmp_path, urls, monkeypatch
):
    passed = [timedelta(0)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + passed[0]

    monkeypatch.setattr(judging, "datetime", Clock)
    folder = make_study(tmp_path / "s", sizes=Sizes(main=30, stimuli=1), url=urls(), practice=0,
                        qualification=0, catch=8, trials=60, k=1, lease_minutes=15)  # fmt: skip
    with in_process(folder, clock=lambda: Clock.now(UTC)) as client:
        spammer = Visitor(client).begin()
        for _ in range(25):
            said = truth(client, trial := spammer.next()["trial"]["id"])
            spammer.response(trial, "cat" if said != "cat" else "dog")
        given = sum(taken(client)[0].values())
        assert given > 15
        assert apply_rules(client.study) == 0, "somebody may still come back"
        passed[0] = timedelta(minutes=14)
        assert apply_rules(client.study) == 0, "somebody may still come back"
        passed[0] = timedelta(minutes=16)
        assert apply_rules(client.study) > 0
        assert sum(taken(client)[0].values()) == 0
        # who comes back and goes on is given back once, not twice
        go_on(spammer, right=False)
        assert spammer.finish().status_code == 200
        assert set(taken(client)[0].values()) == {0}


def test_whoever_is_done_cannot_hand_in_another_task(client):
    ids = {
        "assignmentId": "A1", "hitId": "H1", "workerId": "W1",
        "turkSubmitTo": "https://www.mturk.com",
    }  # fmt: skip
    worker = Visitor(client, platform="mturk", ids=ids).begin()
    go_on(worker)
    assert worker.finish().status_code == 200
    worker.join(expect=200)
    assert worker.state()["completion"]["fields"]["assignmentId"] == "A1"
    worker.ids = ids | {"assignmentId": "A2"}
    assert worker.join(expect=409)["code"] == "again"


def test_two_images_that_stay_until_the_response_are_never_too_late(tmp_path, urls):
    config = {"kind": "same-different", "practice": 0, "qualification": 0, "catch": 0}
    for show, rt, late in ((0, 2000.0, False), (1000, 2200.0, False), (1000, 2700.0, True)):
        folder = make_study(tmp_path / f"s{show}{rt}", url=urls(), response_ms=1500, show_ms=show,
                            **config)  # fmt: skip
        with in_process(folder) as client:
            visitor = Visitor(client).begin()
            trial = visitor.next()["trial"]["id"]
            assert visitor.response(trial, "same", rt_ms=rt).status_code == 200
            with client.database.reading() as db:
                assert ("too_late" in db.scalar(select(ResponseRow.flags))) == late


def test_stimuli_with_fewest_responses_come_first(tmp_path, urls):
    folder = make_study(tmp_path / "s", sizes=Sizes(main=20, stimuli=1), url=urls(), practice=0,
                        qualification=0, catch=0, trials=10, k=5)  # fmt: skip
    with in_process(folder) as client:
        for humans in range(1, 5):
            visitor = Visitor(client).begin()
            go_on(visitor)
            counts = taken(client)[0].values()
            assert max(counts) - min(counts) <= 1
            assert sum(counts) == 10 * humans


def test_the_three_ways_lead_back_where_participants_came_from(client):
    turk = {
        "assignmentId": "A1", "hitId": "H1", "workerId": "W1",
        "turkSubmitTo": "https://workersandbox.mturk.com/",
    }  # fmt: skip
    prolific = {"PROLIFIC_PID": "p1", "STUDY_ID": "s1", "SESSION_ID": "x1"}
    found = {}
    for platform, ids in (("link", None), ("mturk", turk), ("prolific", prolific)):
        visitor = Visitor(client, platform=platform, ids=ids).begin()
        go_on(visitor)
        found[platform] = visitor.finish().json()["completion"]
    assert found["link"]["way"] == "code"
    assert found["mturk"]["action"] == "https://workersandbox.mturk.com/mturk/externalSubmit"
    assert found["mturk"]["fields"]["assignmentId"] == "A1" and len(found["mturk"]["fields"]) > 1
    assert found["prolific"]["url"] == "https://app.prolific.com/submissions/complete?cc=CDONE"


def test_a_preview_on_mechanical_turk_creates_nothing(client):
    ids = {
        "assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "H1",
        "turkSubmitTo": "https://www.mturk.com",
    }  # fmt: skip
    assert Visitor(client, platform="mturk", ids=ids).join(expect=409)["code"] == "preview"
    with client.database.reading() as db:
        for table in (ParticipantRow, SessionRow, IdentityRow, TrialRow):
            assert db.scalar(select(func.count()).select_from(table)) == 0


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example",
        "https://www.mturk.com.evil.example",
        "https://www.mturk.com@evil.example",
        "https://www.mturk.com/elsewhere",
        "http://www.mturk.com",
        "javascript:alert(1)",
        "//www.mturk.com",
        "",
    ],
)
def test_forms_are_sent_to_mechanical_turk_only(client, address):
    ids = {"assignmentId": "A", "hitId": "H", "workerId": "W", "turkSubmitTo": address}
    assert Visitor(client, platform="mturk", ids=ids).join(expect=422)["code"] == "bad_request"


def test_coming_back_goes_on_and_makes_the_old_token_void(client):
    visitor = Visitor(client).begin()
    trial = visitor.next()["trial"]["id"]
    visitor.response(trial)
    old = visitor.token
    visitor.join(expect=200)
    assert visitor.state()["responded"]["practice"] == 1
    visitor.token = old
    assert visitor.ask().json()["code"] == "bad_token"


def test_sources_that_were_shown_are_counted_once_for_each_trial(client):
    visitor = Visitor(client).begin()
    go_on(visitor)
    with client.database.reading() as db:
        exposed = db.scalar(select(func.count()).select_from(ExposureRow))
        shown = db.scalar(select(func.count()).select_from(TrialRow))
        assert db.scalar(select(func.count(SourceImageRow.id))) == 64
    assert exposed == shown == 16


def test_whoever_dropped_qualification_trials_until_too_few_are_left_fails():
    config = StudyConfig(name="a", title="A", qualification=8)

    def progress(n_responded, n_correct, n_dropped):
        counts = ({"qualification": n} for n in (n_responded, n_correct, n_dropped))
        responded, correct, dropped = counts
        return SessionProgress(responded, {}, correct, dropped)

    assert has_evaded(config, progress(3, 3, 5)) and has_evaded(config, progress(4, 2, 1))
    assert not has_evaded(config, progress(4, 3, 4))
    # Who saw the images in another study gets no qualification trials, and dropped none.
    assert not has_evaded(config, progress(0, 0, 0))


def test_nobody_skips_a_part_because_others_are_at_the_same_stimuli(tmp_path, urls):
    sizes = Sizes(main=4, stimuli=1, practice=1, qualification=1, catch=1)
    folder = make_study(tmp_path / "s", sizes=sizes, url=urls(), practice=1, qualification=1,
                        catch=1, trials=3, k=20)  # fmt: skip
    problems = []
    with in_process(folder) as client:
        humans = [Visitor(client).begin() for _ in range(12)]

        def go(visitor):
            try:
                while (step := visitor.next())["next"] in ("trial", "wait"):
                    if step["trial"]:
                        trial = step["trial"]["id"]
                        assert visitor.response(trial, truth(client, trial)).status_code == 200
                assert step["next"] == "finish"
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=go, args=(each,)) for each in humans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        with client.database.reading() as db:
            rows = db.execute(select(TrialRow.session_id, TrialRow.role)).all()
    assert len(rows) == len(humans) * 6
    assert all(
        count == len(humans)
        for role, count in Counter(r for _, r in rows).items()
        if role != "main"
    )


def test_the_server_works_with_few_threads(tmp_path):
    async def allowed():
        return current_default_thread_limiter().total_tokens

    with in_process(make_study(tmp_path / "study")) as client:
        assert client.portal.call(allowed) == THREADS == 4
