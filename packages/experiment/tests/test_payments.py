"""Payment: outcomes, completion codes, lists, and requests to stand-ins of the platforms."""

import csv
import io
import json
import os
import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import pytest

from commands import assert_rejected
from experiment_invariants import rows
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.payments.paying import open_ledger
from eyechart_experiment.payments.payment_list import PayRates
from eyechart_experiment.recruiters import RECRUITERS, platform_fees
from eyechart_experiment.recruiters.api.platform_api import Listing, Payee
from eyechart_experiment.recruiters.api.sending import open_account
from eyechart_experiment.recruiters.mturk import SigningKey, sign_request
from eyechart_experiment.storage.tokens import make_token, read_token
from platform_stubs import complaint, platform

CODES = {"prolific_code": "CDONE", "prolific_failed": "CFAIL", "prolific_screened": "CFEW"}
WHY = "You pressed the same key in every one of the 140 trials, also where the image was easy. " * 2


def worker(name: str) -> dict[str, object]:
    ids = {"assignmentId": f"A{name}", "hitId": "H1", "workerId": f"W{name}",
           "turkSubmitTo": "https://www.mturk.com"}  # fmt: skip
    return {"platform": "mturk", "ids": ids}


def subject(name: str) -> dict[str, object]:
    ids = {"PROLIFIC_PID": f"pid{name}", "STUDY_ID": "65study", "SESSION_ID": f"sub{name}"}
    return {"platform": "prolific", "ids": ids}


TRUTH = """SELECT s.truth FROM trial t JOIN stimulus s ON s.id = t.stimulus_id
    WHERE t.public_id = """


def respond(folder, visitor, is_right=True) -> dict:
    """Respond to all trials that there are; return what comes after them."""
    while (step := visitor.next())["next"] == "trial":
        trial = step["trial"]["id"]
        ((truth,),) = rows(folder.database_url, f"{TRUTH}'{trial}'")
        choice = truth if is_right else next(name for name in ("cat", "dog") if name != truth)
        assert visitor.response(trial, choice).status_code == 200
    return step


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of four stimuli: one finishes, one gets no trials, one fails, one is active."""
    path = tmp_path_factory.mktemp("payments") / "study"
    folder = make_study(path, sizes=Sizes(4, stimuli=1, catch=1), k=1, clean_k=1, trials=4, catch=0,
                        practice=0, qualification=2, minutes=8, min_trials=1, **CODES)  # fmt: skip
    with in_process(folder) as client:
        first = Visitor(client, **worker("1")).begin()
        second = Visitor(client, **subject("2")).begin()
        third = Visitor(client, **subject("3")).begin()
        Visitor(client, **worker("4")).begin()
        assert respond(folder, third, is_right=False)["next"] == "failed"
        assert respond(folder, first)["next"] == "finish"
        assert respond(folder, second)["next"] == "finish"
        completions = {
            "finished": first.finish().json()["completion"],
            "screened-out": second.finish().json()["completion"],
            "failed": third.state()["completion"],
        }
    return folder, completions


def listed(run, folder, *options):
    result = run("experiment", "payments", getattr(folder, "path", folder), *options)
    assert result.status == 0, result.err
    return list(csv.DictReader(io.StringIO(result.out)))


def test_every_session_has_its_outcome_its_own_code_and_its_amount(run, folder):
    study, seen = folder
    table = listed(run, study, "--reward", 1.5, "--bonus", 0.25)
    got = [(row["platform_id"], row["outcome"], row["amount"]) for row in table]
    assert got == [
        ("W1", "finished", "1.75"), ("pid2", "screened-out", "1.50"), ("pid3", "failed", "1.50"),
        ("W4", "active", "0.00"),
    ]  # fmt: skip
    codes = [row["code"] for row in table]
    assert len(set(codes[:3])) == 3 and codes[3] == ""
    # what the worker's browser sends proves nothing but the code
    assert seen["finished"]["fields"] == {"assignmentId": "A1", "code": codes[0]}
    assert seen["failed"]["url"].endswith("cc=CFAIL")
    assert seen["screened-out"]["url"].endswith("cc=CFEW")
    # 8 minutes at 12 an hour; who failed needed 93.1 of 99.3 s
    assert [row["amount"] for row in listed(run, study)] == ["1.60", "1.60", "1.51", "0.00"]
    assert 0 <= float(table[0]["minutes"]) < 1


def test_a_list_on_disk_is_private(run, folder, tmp_path):
    out = tmp_path / "payments.csv"
    result = run("experiment", "payments", folder[0].path, "--out", out, "--reward", 1)
    assert "4 sessions, 3.00 USD" in result.out
    assert out.stat().st_mode & 0o777 == 0o600


def test_simulated_participants_are_listed_and_earn_nothing(run, copy):
    with sqlite3.connect(copy / "responses.sqlite") as db:
        db.execute("UPDATE participant SET platform = 'robot'")
    table = listed(run, copy, "--reward", 1.5)
    assert [(row["platform"], row["platform_id"], row["amount"]) for row in table] == [
        ("robot", "", "0.00")
    ] * 4
    assert table[0]["outcome"] == "finished"
    verified = run("experiment", "verify", copy, table[0]["code"])
    assert verified.status == 0 and "a simulation" in verified.out


def test_verify_names_the_outcome_of_a_code_and_rejects_others(run, folder):
    study, seen = folder
    code = seen["finished"]["code"]
    good = run("experiment", "verify", study.path, code.lower())
    assert good.status == 0 and f"{code.lower()}: finished, participant P" in good.out
    failed = next(row for row in listed(run, study) if row["outcome"] == "failed")["code"]
    mixed = run("experiment", "verify", study.path, failed, "23456789")
    assert mixed.status == 1
    assert f"{failed}: failed" in mixed.out and "23456789: not a completion code" in mixed.out
    assert "1 of 2 codes" in mixed.err


def test_tokens_do_not_show_how_many_participants_there_are():
    at = datetime(2030, 1, 1, tzinfo=UTC)
    shown = set()
    for number in range(1, 200):
        token = make_token(b"k" * 32, number, at)
        assert read_token(b"k" * 32, token).session_id == number
        shown.add(int(token.split(".")[0][1:], 16))
    # 64 random bits: no two are within a billion of each other
    ordered = sorted(shown)
    assert len(ordered) == 199
    assert min(b - a for a, b in pairwise(ordered)) > 10**9
    assert make_token(b"k" * 32, 5, at).split(".")[0] != make_token(b"k" * 32, 5, at).split(".")[0]


# requests, by the published fields


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setenv("PROLIFIC_API_TOKEN", "TOKEN")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    with platform() as site:
        yield site


@pytest.fixture
def copy(folder, tmp_path):
    """The study in a folder of its own, for its ledger."""
    import shutil

    shutil.copytree(folder[0].path, tmp_path / "study")
    return tmp_path / "study"


LISTING = ("--url", "https://lab.example", "--places", 9)


def test_a_study_is_listed_with_its_limits_reward_and_codes(run, copy, account):
    money = ("--reward", 1.5, "--bonus", 0.25, "--api-url", account.url)
    result = run("experiment", "recruit", copy, "prolific", *LISTING, *money, "--publish")
    assert result.status == 0, result.err
    assert account.names == ["/studies/", "/studies/ID/transition/"]
    (_, body, _), (_, publish, headers) = account.requests
    assert publish == {"action": "PUBLISH"}
    assert headers["path"] == "/studies/65study/transition/"
    assert (body["reward"], body["total_available_places"]) == (150, 9)
    assert (body["estimated_completion_time"], body["maximum_allowed_time"]) == (8, 120)
    codes = {code["code"]: code["code_type"] for code in body["completion_codes"]}
    assert codes == {"CDONE": "COMPLETED", "CFAIL": "OTHER", "CFEW": "OTHER"}
    assert body["external_study_url"] == RECRUITERS["prolific"].address_help(
        "https://lab.example/s/small"
    )
    assert "bonus of 0.25" in body["description"]
    assert run("experiment", "recruit", copy, "mturk", *LISTING, *money).status == 0
    name, hit, _ = account.requests[-1]
    assert name == "CreateHIT" and account.complaints == []
    assert (hit["Reward"], hit["MaxAssignments"]) == ("1.50", 9)
    assert hit["LifetimeInSeconds"] == 7 * 86400 and hit["AssignmentDurationInSeconds"] == 7200
    assert "<ExternalURL>https://lab.example/s/small</ExternalURL>" in hit["Question"]
    assert open_ledger(copy, account.url).listing()["id"] == "3HIT"
    assert (copy / "payments.jsonl").stat().st_mode & 0o777 == 0o600


def test_who_fails_is_by_default_paid_for_the_time_until_then(run, copy, account):
    url = ("--api-url", account.url)
    assert run("experiment", "recruit", copy, "prolific", *LISTING, *url).status == 0
    study = account.requests[-1][1]
    assert study["reward"] == 160 and "bonus" not in study["description"]
    actions = {code["code"]: code["actions"] for code in study["completion_codes"]}
    pays = {"action": "FIXED_SCREEN_OUT_PAYMENT", "fixed_screen_out_reward": 151, "slots": 9}
    review = [{"action": "MANUALLY_REVIEW"}]
    assert actions == {"CDONE": review, "CFAIL": [pays], "CFEW": review}
    assert run("experiment", "recruit", copy, "mturk", *LISTING, *url).status == 0
    hit = account.requests[-1][1]
    # Mechanical Turk pays everybody the same; the others get the rest as a bonus
    assert hit["Reward"] == "1.51" and "bonus of 0.09" in hit["Description"]
    account.requests.clear()
    result = run("experiment", "pay", copy, *url)
    assert (result.status, account.complaints) == (0, []), result.err
    paid = [
        (name, body.get("BonusAmount"), headers["path"]) for name, body, headers in account.requests
    ]
    # Prolific pays the third one by the completion code
    assert paid == [
        ("ApproveAssignment", None, "/"), ("SendBonus", "0.09", "/"),
        ("/submissions/ID/transition/", None, "/submissions/sub2/transition/"),
    ]  # fmt: skip
    assert [row["amount"] for row in listed(run, copy)] == ["1.60", "1.60", "1.51", "0.00"]


def test_a_study_that_was_listed_for_one_reward_pays_everybody_that_reward(run, copy, account):
    url = ("--api-url", account.url)
    assert (
        run("experiment", "recruit", copy, "prolific", *LISTING, *url, "--reward", 1.5).status == 0
    )
    actions = [code["actions"][0]["action"] for code in account.requests[-1][1]["completion_codes"]]
    assert actions == ["MANUALLY_REVIEW"] * 3
    assert [row["amount"] for row in listed(run, copy)] == ["1.50", "1.50", "1.50", "0.00"]
    assert run("experiment", "pay", copy, *url).status == 0
    paths = {headers["path"] for _, _, headers in account.requests}
    assert "/submissions/sub3/transition/" in paths


def test_prolific_pays_less_only_by_a_code(run, tmp_path, account):
    study = make_study(tmp_path / "study", prolific_code="CDONE", prolific_failed="")
    ask = ("experiment", "recruit", study.path, "prolific", *LISTING, "--api-url", account.url)
    assert_rejected(run(*ask), "--prolific-failed CODE", "pass --reward")
    assert run(*ask, "--reward", 1).status == 0


def test_everybody_who_ended_is_paid_once(run, copy, account):
    options = ("--reward", 1.5, "--bonus", 0.25, "--api-url", account.url)
    dry = run("experiment", "pay", copy, *options, "--dry-run")
    assert account.requests == [] and "4 steps would be sent" in dry.out
    assert "ApproveAssignment" in dry.out and "/submissions/sub2/transition/" in dry.out
    assert "TOKEN" not in dry.out and "SECRET" not in dry.out and "AKID" not in dry.out
    first = run("experiment", "pay", copy, *options)
    assert (first.status, account.complaints) == (0, []), first.err
    assert account.names == [
        "ApproveAssignment", "SendBonus", *["/submissions/ID/transition/"] * 2,
    ]  # fmt: skip
    bonus = account.requests[1][1]
    assert (bonus["WorkerId"], bonus["BonusAmount"], bonus["AssignmentId"]) == ("W1", "0.25", "A1")
    again = run("experiment", "pay", copy, *options)
    assert len(account.requests) == 4 and "0 steps were open" in again.out
    ledger = (copy / "payments.jsonl").read_text()
    # pseudonyms only: the ledger stays when platform ids are deleted
    assert not any(word in ledger for word in ("W1", "pid2", "sub2", "TOKEN", "SECRET"))


def test_a_bonus_whose_reply_is_lost_is_never_sent_again(account, tmp_path):
    from eyechart_experiment.payments.paying import PayStep, carry_out, open_steps

    api = RECRUITERS["prolific"].api
    payee = Payee("P1", {"SESSION_ID": "sub1", "STUDY_ID": "65study", "PROLIFIC_PID": "pid1"})
    step = PayStep("bonus", "P1", api.bonus(payee, Decimal("0.5"), "Thanks."))
    ledger = open_ledger(tmp_path, account.url)
    account.lose.add("/bulk-bonus-payments/ID/pay/")
    with pytest.raises(UsageError, match="No reply"):
        list(carry_out(open_account(api, url=account.url), ledger, [step]))
    assert account.paid == ["/bulk-bonus-payments/65bonus/pay/"]
    assert account.requests[0][1]["csv_bonuses"] == "sub1,0.50"
    to_do, unknown = open_steps(ledger, [step])
    assert (to_do, unknown) == ([], [step])
    # an approval, which the platform accepts twice, is repeated
    approval = PayStep("approve", "P1", api.approve(payee))
    ledger.write("approve", "P1", "sent")
    assert open_steps(ledger, [approval]) == ([approval], [])


@pytest.mark.parametrize("how", ["lose", "fail"])
def test_a_bonus_is_paid_once_however_late_and_with_whatever_amount_it_is_repeated(
    run, copy, account, how
):
    options = ("--reward", 1.5, "--api-url", account.url)
    getattr(account, how).add("SendBonus")
    lost = run("experiment", "pay", copy, *options, "--bonus", 0.25)
    assert lost.status == 2 and "check on the platform" in lost.err and "Traceback" not in lost.err
    assert len(account.bonuses) == 1
    # a day later Mechanical Turk has forgotten the token, and another amount has another token
    account.tokens.clear()
    getattr(account, how).clear()
    again = run("experiment", "pay", copy, *options, "--bonus", 0.3)
    assert again.status == 0 and "had been done before" in again.out, again.err
    assert [bonus["BonusAmount"] for bonus in account.bonuses] == ["0.25"]
    assert account.names.count("SendBonus") == 1 and account.complaints == []
    assert "0 steps were open" in run("experiment", "pay", copy, *options, "--bonus", 0.3).out


def test_a_bonus_that_never_arrived_is_sent_again(run, copy, account):
    options = ("--reward", 1.5, "--bonus", 0.25, "--api-url", account.url)
    account.lose.add("SendBonus")
    assert run("experiment", "pay", copy, *options).status == 2
    # the connection was lost on the way there
    account.bonuses.clear()
    account.tokens.clear()
    account.lose.clear()
    assert run("experiment", "pay", copy, *options).status == 0
    assert len(account.bonuses) == 1


def test_who_was_approved_by_hand_is_taken_as_approved(run, copy, account):
    options = ("--reward", 1.5, "--api-url", account.url)
    account.statuses["A1"] = "Approved"
    first = run("experiment", "pay", copy, *options)
    # Mechanical Turk rejects a second approval, and says afterwards how it stands
    assert "status 400" in first.out + first.err
    again = run("experiment", "pay", copy, *options)
    assert again.status == 0 and "had been done before" in again.out
    assert "0 steps were open" in run("experiment", "pay", copy, *options).out


def test_a_listing_whose_reply_was_lost_is_not_made_again(run, copy, account):
    ask = ("experiment", "recruit", copy, "mturk", *LISTING, "--api-url", account.url)
    account.lose.add("CreateHIT")
    assert run(*ask).status == 2
    account.lose.clear()
    assert_rejected(run(*ask), "check on")
    assert account.names == ["CreateHIT"]


def test_sessions_are_rejected_with_a_reason(run, copy, account):
    url = ("--api-url", account.url)
    code = next(
        row["code"]
        for row in csv.DictReader(io.StringIO(run("experiment", "payments", copy).out))
        if row["outcome"] == "failed"
    )
    short = run("experiment", "pay", copy, "--reject", code, "--reason", "Bad.", *url)
    assert short.status == 2 and account.requests == []
    done = run("experiment", "pay", copy, "--reject", code, "--reason", WHY, *url)
    assert done.status == 0, done.err
    rejected = [body for name, body, _ in account.requests if body.get("action") == "REJECT"]
    assert [body["message"] for body in rejected] == [WHY.strip()]
    assert_rejected(run("experiment", "pay", copy, "--reject", "NOBODY", "--reason", WHY, *url),
                    "NOBODY")  # fmt: skip
    # nobody who was rejected is approved by a later run
    run("experiment", "pay", copy, *url)
    assert "sub3" not in json.dumps([r[2]["path"] for r in account.requests[1:]])


def test_credentials_come_from_a_private_file_outside_the_study(run, copy, account, tmp_path):
    file = tmp_path / "prolific"
    file.write_text("# of the lab\nPROLIFIC_API_TOKEN = TOKEN\n")
    file.chmod(0o640)
    ask = ("experiment", "recruit", copy, "prolific", *LISTING, "--api-url", account.url)
    assert_rejected(run(*ask, "--credentials", file), "chmod 600")
    inside = copy / "credentials"
    inside.write_text("PROLIFIC_API_TOKEN=TOKEN\n")
    assert_rejected(run(*ask, "--credentials", inside), "study's folder")
    inside.unlink()
    file.chmod(0o600)
    os.environ.pop("PROLIFIC_API_TOKEN")
    assert_rejected(run(*ask), "PROLIFIC_API_TOKEN must be set")
    assert run(*ask, "--credentials", file).status == 0
    wrong = tmp_path / "wrong"
    wrong.write_text("PROLIFIC_API_TOKEN=OTHER")
    wrong.chmod(0o600)
    refused = run(*ask, "--credentials", wrong)
    assert refused.status == 2 and "status 401" in refused.err and "OTHER" not in refused.err
    assert_rejected(
        run(*ask[:-2], "--api-url", "http://far.example", "--credentials", file), "https://"
    )


def test_a_request_with_another_field_is_found_out():
    assert complaint("ApproveAssignment", {"Assignment": "A"}, {})
    assert complaint("SendBonus", {"WorkerId": 3, "BonusAmount": "1", "AssignmentId": "A",
                                   "Reason": "x"}, {})  # fmt: skip


def test_the_signature_is_that_of_the_published_example():
    # "Signature Version 4 signing process", the request ListUsers of IAM
    key = SigningKey("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "iam")
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    url = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08"
    now = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    signed = sign_request(key, "GET", url, headers, b"", now)
    assert signed["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request,"
        " SignedHeaders=content-type;host;x-amz-date,"
        " Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def test_botocore_accepts_every_request_and_signs_it_alike():
    pytest.importorskip("botocore", reason="install botocore to compare with it")
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    api = RECRUITERS["mturk"].api
    payee = Payee("P1", worker("1")["ids"])
    listing = Listing(name="s", title="T", description="D", address="https://lab.example/s/s?a&b",
                      places=9, minutes=8, max_minutes=60, days=7, reward=Decimal("1.5"),
                      bonus=Decimal(0), settings={})  # fmt: skip
    model = ServiceModel(Loader().load_service_model("mturk", "service-2"))
    secrets = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET"}
    for request in (*api.create(listing), *api.approve(payee), *api.reject(payee, "why"),
                    *api.bonus(payee, Decimal("0.5"), "thanks"), api.look_up("approve", payee),
                    api.look_up("bonus", payee)):  # fmt: skip
        name = request.headers["X-Amz-Target"].rpartition(".")[2]
        report = ParamValidator().validate(
            dict(request.body), model.operation_model(name).input_shape
        )
        assert not report.has_errors(), report.generate_report()
        body, now = json.dumps(request.body).encode(), datetime.now(UTC)
        ours = api.authorize(request, api.url + "/", body, secrets, now)
        other = AWSRequest("POST", api.url + "/", dict(request.headers), body)
        signer = SigV4Auth(Credentials("AKID", "SECRET"), "mturk-requester", "us-east-1")
        other.context["timestamp"] = ours["X-Amz-Date"]
        other.headers["X-Amz-Date"] = ours["X-Amz-Date"]
        text = signer.string_to_sign(other, signer.canonical_request(other))
        assert ours["Authorization"].endswith(f"Signature={signer.signature(text, other)}")


def test_fees_have_a_date_and_a_source(run, folder):
    fees = platform_fees()
    assert fees["prolific"].fraction == 0.333 and fees["mturk-10"].fraction == 0.4
    for fee in fees.values():
        assert fee.source.startswith("https://") and datetime.fromisoformat(fee.read_on)


@pytest.mark.parametrize("amount", ["NaN", "-1", "1001"])
def test_amounts_that_must_be_mistakes_are_rejected(amount):
    with pytest.raises(UsageError, match="reward must be in"):
        PayRates(Decimal(amount))


def test_forget_asks_before_it_deletes_ids_of_active_sessions(run, copy):
    asked = run("experiment", "forget", copy)
    assert asked.status == 2 and "1 session with platform ids is not finished" in asked.err
    assert listed(run, type("Study", (), {"path": copy}))[3]["platform_id"] == "W4"
    assert "4 sessions" in run("experiment", "forget", copy, "--yes").out
    assert {row["platform_id"] for row in listed(run, type("S", (), {"path": copy}))} == {""}
