"""Platform ids can be known to others, and invented: what they allow."""

from uuid import uuid4

import pytest

from experiment_invariants import rows
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart_experiment.server.request_limits import JOINS


def prolific(name):
    return {"PROLIFIC_PID": name, "STUDY_ID": "65study", "SESSION_ID": f"session{name}"}


@pytest.fixture
def folder(tmp_path):
    """A study with places for five participants."""
    return make_study(tmp_path / "study", sizes=Sizes(main=20, stimuli=1))


def test_48_joins_with_invented_ids_from_one_address_do_not_close_a_study(folder):
    with in_process(folder, joins=JOINS) as client:
        for number in range(48):
            Visitor(client, platform="prolific", ids=prolific(f"invented{number}")).join()
        assert client.get("/api/studies/small").json()["open"]
        honest = Visitor(client, platform="prolific", ids=prolific("honest")).begin()
        assert honest.next()["next"] == "trial"


def test_participants_with_a_trial_keep_their_places(folder):
    with in_process(folder) as client:
        # 20 stimuli with 2 responses each are enough for five participants with 8 trials.
        for _ in range(5):
            assert Visitor(client).begin().next()["next"] == "trial"
        assert Visitor(client).join(expect=409)["code"] == "full"


def test_a_known_prolific_id_does_not_take_over_a_running_session(folder):
    with in_process(folder) as client:
        owner = Visitor(client, platform="prolific", ids=prolific("p1")).begin()
        trial = owner.next()["trial"]["id"]
        for more in ({}, {"browser": None}, {"code": "PAAAAAAAAAA"}, {"code": ""}):
            other = Visitor(client, platform="prolific", ids=prolific("p1"))
            problem = other.join(expect=409, **more)
            assert problem["code"] == "elsewhere"
            assert "enter the participant code" in problem["message"]
        # Nothing has changed for the owner, whose ids are not replaced either.
        stranger = prolific("p1") | {"SESSION_ID": "other"}
        Visitor(client, platform="prolific", ids=stranger).join(expect=409)
        ((ids,),) = rows(folder.database_url, "SELECT ids FROM identity")
        assert "sessionp1" in ids
        assert owner.response(trial).status_code == 200
        owner.join(expect=200)
        # The participant, on a second device.
        second = Visitor(client, platform="prolific", ids=prolific("p1"))
        second.join(expect=200, code=f" {owner.state()['participant'].lower()} ")
        assert owner.ask().status_code == 401
        second.join(expect=200)
        assert second.claim().json()["responded"]["practice"] == 1


def test_a_known_prolific_id_does_not_show_the_completion_code(folder):
    with in_process(folder) as client:
        owner = Visitor(client, platform="prolific", ids=prolific("p1")).begin()
        while (step := owner.next())["next"] == "trial":
            owner.response(step["trial"]["id"])
        assert owner.state()["completion"]["code"]
        other = Visitor(client, platform="prolific", ids=prolific("p1"))
        assert other.join(expect=409)["code"] == "elsewhere"


def test_the_assignment_of_mechanical_turk_resumes_a_session_and_a_worker_id_does_not(folder):
    ids = {"assignmentId": "A1", "hitId": "H", "workerId": "W9",
           "turkSubmitTo": "https://www.mturk.com"}  # fmt: skip
    with in_process(folder) as client:
        Visitor(client, platform="mturk", ids=ids).join()
        Visitor(client, platform="mturk", ids=ids).join(expect=200)
        other = Visitor(client, platform="mturk", ids=ids | {"assignmentId": str(uuid4())})
        assert other.join(expect=409)["code"] == "elsewhere"
