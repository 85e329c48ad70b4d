"""The server of a study asked by somebody who wants to know more, or to do harm."""

import base64
import hashlib
import json
import re
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, select, text
from starlette.testclient import TestClient

from experiment_studies import CORRUPTIONS, SIDE, Sizes, Visitor, in_process, make_study
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart_experiment.server import routes
from eyechart_experiment.server.request_limits import MAX_BYTES, RateLimit
from eyechart_experiment.server.session_progress import SessionProgress, is_catch_due
from eyechart_experiment.storage.database_tables import (
    IdentityRow,
    ParticipantRow,
    ResponseRow,
    SessionRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import connect_study
from eyechart_experiment.storage.tokens import make_token
from eyechart_experiment.storage.withdrawal import withdraw

PLENTY = RateLimit(1e6, 1e6)
JOIN = "/api/studies/small/sessions"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_study(
        tmp_path_factory.mktemp("security") / "study",
        sizes=Sizes(main=60, stimuli=1),
        min_trials=1,
    )


@pytest.fixture(scope="module")
def client(folder):
    with in_process(folder) as one:
        yield one


@pytest.fixture
def visitor(client):
    return Visitor(client).begin()


# what a participant is told


class Recorder:
    """Writes down every byte that a server sends: status, headers, body."""

    def __init__(self, app):
        self.app, self.sent = app, []

    async def __call__(self, scope, receive, send):
        async def listening(message):
            if message["type"] == "http.response.start":
                self.sent.append([scope["path"], message["status"], message["headers"], b""])
            elif message["type"] == "http.response.body":
                self.sent[-1][3] += message.get("body", b"")
            await send(message)

        await self.app(scope, receive, listening if scope["type"] == "http" else send)


@contextmanager
def recorded(folder):
    study = connect_study(folder)
    database = study.database
    app = Recorder(routes.make_app(study, per_token=PLENTY, per_address=PLENTY))
    with TestClient(app) as client:
        client.database, client.recorder = database, app
        yield client
    database.close()


def go_through(visitor):
    """Take part from consent to the code, and be wrong now and then; return what was told."""
    client, told = visitor.client, []
    client.get(f"/s/{visitor.study}?PROLIFIC_PID=x")
    client.get(f"/api/studies/{visitor.study}")
    client.get("/healthz")
    client.get("/api/openapi.json")
    visitor.begin()
    while (step := visitor.next())["next"] == "trial":
        trial = step["trial"]
        for each in trial["images"]:
            assert visitor.image(each).status_code == 200
        with client.database.reading() as db:
            right = db.scalar(
                select(StimulusRow.truth).join(TrialRow).where(TrialRow.public_id == trial["id"])
            )
        body = {"uuid": str(uuid4()), "choice": right, "rt_ms": 400, "stamps": {}, "flags": []}
        told.append((trial, visitor.put(trial["id"], body).json()))
        # and what is said to those who err
        visitor.put(trial["id"], body | {"choice": "other"})
        visitor.put(trial["id"], body | {"rt_ms": 401})
        visitor.image(trial["images"][0])
        visitor.state()
    visitor.finish()
    return told


WORDS = ("delta", "strength", "corrupt", "catch", "role", "source", "stimulus_id", "etag", "truth")
CONSTANT = (b"content-security-policy", b"cross-origin-resource-policy", b"permissions-policy")


def hidden(client):
    """Return what the database knows of images, as it could be written."""
    with client.database.reading() as db:
        images = db.execute(
            select(
                StimulusImageRow.sha256,
                StimulusImageRow.corruption,
                StimulusImageRow.parameters,
                StimulusImageRow.delta_v,
            )
        ).all()
        sources = db.execute(select(SourceImageRow.digest, SourceImageRow.name)).all()
    names = {part for name in CORRUPTIONS for part in name.split("/")}
    for sha256, corruption, parameters, delta_v in images:
        names |= {sha256[:32], sha256[32:], corruption, *parameters}
        names |= {f"{delta_v:.{digits}f}" for digits in (4, 6, 15)} if delta_v else set()
    for digest, name in sources:
        names |= {digest[:32], digest[32:], name, name.removesuffix(".png")}
    return names


def readable(reply):
    """Return headers and body of a reply as text; pixels are looked at elsewhere."""
    path, status, headers, body = reply
    lines = [name + b": " + value for name, value in headers if name not in CONSTANT]
    if status != 200 or not path.startswith("/api/images/"):
        lines.append(body)
    return b"\n".join(lines).decode().lower()


def without_random(text, told):
    """Return a text without the token and the ids of trials and images.

    They are random: once in a while they contain the letters of a short name.
    """
    for trial, _ in told:
        for random_id in (trial["id"], *trial["images"]):
            text = text.replace(random_id.lower(), "")
    return re.sub(r'"token":"[^"]*"', "", text)


@pytest.mark.parametrize("kind", ["categorise", "same-different"])
def test_nothing_that_is_sent_says_what_is_shown(tmp_path, kind):
    folder = make_study(tmp_path / "s", kind=kind, sizes=Sizes(main=10, stimuli=1))
    responses = CATEGORIES if kind == "categorise" else ("same", "different")
    with recorded(folder) as client:
        told = go_through(Visitor(client))
        names, sent = hidden(client), client.recorder.sent
    assert Counter(trial["phase"] for trial, _ in told) == {
        "practice": 2, "qualification": 4, "main": 10,
    }  # fmt: skip
    practice = [f"/api/trials/{trial['id']}/response" for trial, _ in told[:2]]
    assert len(names) > 200
    for name in CONSTANT:
        assert len({dict(headers)[name] for _, _, headers, _ in sent}) == 1
    told_responses = Counter()
    for reply in sent:
        path, status = reply[:2]
        text = without_random(readable(reply), told)
        for name in names:
            assert name.lower() not in text, (path, name)
        if path == "/api/openapi.json":
            # it says that feedback on practice has a truth
            assert not any(re.search(rf"\b{word}\b", text) for word in CATEGORIES)
            continue
        said = [word for word in responses if re.search(rf"\b{word}\b", text)]
        if path == "/api/studies/small":
            assert sorted(said) == sorted(responses)
        elif path in practice and status == 200:
            assert len(said) == 1
            text = text.replace("truth", "")
            told_responses[path] += 1
        else:
            assert said == [], path
        assert not [word for word in WORDS if word in text], path
    assert told_responses == dict.fromkeys(practice, 1)


def test_a_trial_is_an_id_a_part_and_a_number_and_nothing_else(tmp_path):
    folder = make_study(tmp_path / "s", sizes=Sizes(main=10, stimuli=1), k=2)
    seen = {}
    with in_process(folder) as client:
        for _ in range(2):
            told = go_through(Visitor(client))
            for number, (trial, reply) in enumerate(told):
                assert set(trial) == {"id", "phase", "images", "number", "of"}
                assert trial["images"] == [f"{trial['id']}-0"]
                assert re.fullmatch("[0-9a-f]{32}", trial["id"])
                assert (trial["number"], trial["of"]) == (number, 16)
                assert set(reply) == {"stored", "feedback", "state"}
                assert (reply["feedback"] is None) == (trial["phase"] != "practice")
            with client.database.reading() as db:
                rows = db.execute(select(TrialRow.stimulus_id, TrialRow.public_id)).all()
        for stimulus, public in rows:
            seen.setdefault(stimulus, set()).add(public)
    # the same stimulus has another id for everybody
    assert max(map(len, seen.values())) == 2
    assert sum(map(len, seen.values())) == 32


def test_all_images_come_in_replies_of_one_size_with_the_same_headers(tmp_path):
    with recorded(make_study(tmp_path / "s", sizes=Sizes(main=10, stimuli=1))) as client:
        go_through(Visitor(client))
        sent = [
            (status, tuple(headers), len(body))
            for path, status, headers, body in client.recorder.sent
            if path.startswith("/api/images/") and status == 200
        ]
    assert len(sent) == 16 and len(set(sent)) == 1
    names = {name for name, _ in sent[0][1]}
    assert sent[0][2] == SIDE * SIDE * 3
    assert not names & {b"etag", b"last-modified", b"content-disposition", b"set-cookie"}


def test_catch_trials_come_anywhere_in_the_main_part(folder):
    places = Counter()
    for seed in range(2000):
        done = Counter()
        for place in range(10):
            progress = SessionProgress(done, {}, {}, {})
            role = (
                "catch" if is_catch_due(folder.config, SessionRow(seed=seed), progress) else "main"
            )
            places[place] += role == "catch"
            done[role] += 1
        assert done == {"main": 8, "catch": 2}
    # each place has one of five: 400 of 2,000, with a deviation of 18
    assert all(abs(places[place] - 400) < 5 * 18 for place in range(10))


# who may see what


def test_another_ones_trial_and_image_are_as_if_they_were_not_there(client, visitor):
    other = Visitor(client).begin()
    trial = visitor.next()["trial"]
    for ask in (
        lambda name: other.image(f"{name}-0"),
        lambda name: other.response(name),
        lambda name: other.response(name, rt_ms=None, choice=""),
    ):
        theirs, nobodys = ask(trial["id"]), ask(uuid4().hex)
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.content == nobodys.content
        assert theirs.headers == nobodys.headers
    assert visitor.response(trial["id"]).status_code == 200


def test_an_image_is_there_only_while_its_trial_is_out(client, visitor):
    trial = visitor.next()["trial"]
    name = trial["images"][0]
    assert visitor.image(name).status_code == 200
    assert visitor.image(f"{trial['id']}-1").json()["code"] == "no_image"
    visitor.response(trial["id"])
    assert visitor.image(name).json()["code"] == "no_image"
    second = visitor.next()["trial"]["images"][0]
    visitor.claim()
    assert visitor.image(second).json()["code"] == "no_image"


def flipped(token):
    """Return a token with each of its characters changed, one at a time."""
    for place, old in enumerate(token):
        yield token[:place] + ("A" if old != "A" else "B") + token[place + 1 :]


def test_a_token_with_anything_changed_is_rejected(client, visitor):
    for token in flipped(visitor.token):
        reply = client.get("/api/session", headers={"Authorization": f"Bearer {token}"})
        assert (reply.status_code, reply.json()["code"]) == (401, "bad_token")
    assert visitor.state()["state"] == "active"


def test_made_up_tokens_are_rejected(client, folder, visitor):
    with client.database.reading() as db:
        own = db.scalar(select(func.max(SessionRow.id)))
    later = datetime.now(UTC) + timedelta(hours=1)
    body, _, signature = visitor.token.rpartition(".")
    head, rest = body.split(".", 1)
    empty = base64.urlsafe_b64encode(b"\0" * 32).decode().rstrip("=")
    forged = [
        make_token(bytes(32), own, later),
        make_token(folder.secret, own, later),  # signed here, but not the one that was given
        f"{int(head, 16) ^ 1:016x}.{rest}.{signature}",
        f"{own + 1}.{rest}.{signature}",  # an id that is not blinded
        f"{body}.", f".{signature}", signature, body, visitor.token[:-1], visitor.token + "=",
        f"{body}.{empty}", visitor.token * 2, "." * 400, "9" * 9000, "null", "é" * 20,
        "' OR 1=1 --",
    ]  # fmt: skip
    for token in forged:
        header = [(b"authorization", b"Bearer " + token.encode("latin1"))]
        reply = client.get("/api/session", headers=header)
        assert (reply.status_code, reply.json()["code"]) == (401, "bad_token"), token
        assert reply.headers["www-authenticate"] == "Bearer"
    # signed here, for a session that is not there any more
    gone = {"Authorization": f"Bearer {make_token(folder.secret, own + 1000, later)}"}
    reply = client.get("/api/session", headers=gone)
    assert (reply.status_code, reply.json()["code"]) == (401, "deleted")
    for header in ("", "Bearer", "Bearer ", visitor.token, f"Basic {visitor.token}", "Bearer\t"):
        reply = client.get("/api/session", headers={"Authorization": header})
        assert (reply.status_code, reply.json()["code"]) == (401, "no_token"), header
    assert client.get(f"/api/session?token={visitor.token}").status_code == 401


def test_a_token_of_another_study_of_the_same_database_is_rejected(tmp_path, folder):
    url = f"sqlite:///{tmp_path / 'both.sqlite'}"
    secret = "ab" * 32
    one = make_study(tmp_path / "one", "one", url=url, secret=secret)
    two = make_study(tmp_path / "two", "two", url=url, secret=secret)
    with in_process(one) as first, in_process(two) as second:
        visitor = Visitor(first, "one").begin()
        reply = second.get("/api/session", headers=visitor.headers)
        assert (reply.status_code, reply.json()["code"]) == (401, "bad_token")


def test_a_token_is_over_when_it_says_so(folder):
    now = [datetime.now(UTC)]
    with in_process(folder, clock=lambda: now[0]) as client:
        visitor = Visitor(client).begin()
        now[0] += timedelta(minutes=folder.config.token_minutes) - timedelta(seconds=2)
        assert visitor.ask().status_code == 200
        now[0] += timedelta(seconds=3)
        for reply in (visitor.ask(), visitor.finish(), visitor.image(uuid4().hex + "-0")):
            assert (reply.status_code, reply.json()["code"]) == (401, "expired_token")
        visitor.join(expect=200)
        assert visitor.ask().status_code == 200


def test_whoever_is_deleted_while_asking_is_told_so(folder, monkeypatch):
    def deletes_first(work, study, person):
        def deleted(*arguments, **options):
            withdraw(study, person)
            return work(*arguments, **options)

        return deleted

    with in_process(folder) as client:
        for name, ask in (
            ("allocate", Visitor.ask),
            ("claim_tab", Visitor.claim),
            ("store", lambda one: one.response(uuid4().hex)),
        ):
            visitor = Visitor(client).begin()
            person = visitor.state()["participant"]
            # the token was good when it was looked at, and the session is gone when work begins
            work = deletes_first(getattr(routes, name), client.study, person)
            with monkeypatch.context() as patched:
                patched.setattr(routes, name, work)
                reply = ask(visitor)
            assert (reply.status_code, reply.json()["code"]) == (401, "deleted")
            assert visitor.ask().status_code == 401


# what is asked for


STRANGE = [
    "..", "../secret", "..%2fsecret", "%2e%2e%2fsecret", "..%252fsecret", "..%5csecret",
    "..%c0%af..%c0%afsecret", "%00", "a%00", "%ff%fe", "%EF%BC%8E%2Fsecret", "%2fetc%2fpasswd",
    "//etc/passwd", "file:%2f%2f%2fetc%2fpasswd", "%0d%0aX-Evil:%201", "<script>", "%3Cscript%3E",
    "' OR '1'='1", "a" * 5000, "-", "0", "%E2%80%AE", "study.yaml", "responses.sqlite", "%F0%9F",
    "app.js/..%2f..%2fsecret", "app.js%00.css", "APP.JS", "__init__.py", "..;/secret", "~root",
]  # fmt: skip


@pytest.mark.parametrize(
    "before, after",
    [("/s/", ""), ("/assets/", ""), ("/api/studies/", ""), ("/api/studies/", "/sessions"),
     ("/api/images/", ""), ("/api/images/", "-0"), ("/api/trials/", "/response"), ("/", "")],
)  # fmt: skip
def test_no_path_leads_out_of_where_it_should(client, folder, visitor, before, after):
    secret = (folder.path / "secret").read_text()
    page = client.get("/s/small").text
    for strange in STRANGE:
        for method in ("GET", "POST", "PUT"):
            reply = client.request(
                method, f"{before}{strange}{after}", headers=visitor.headers, json={}
            )
            assert reply.status_code in (404, 405, 422), (method, strange)
            if not (before == "/s/" and reply.text == page):
                assert set(reply.json()) == {"code", "message"}
            assert secret not in reply.text and "root:" not in reply.text
            assert "evil" not in "".join(reply.headers).lower()


# what is sent


def join_body(**more):
    return {
        "platform": "link",
        "ids": {"client": str(uuid4())},
        "consent": True,
        "screen": {},
    } | more


def response_body(**more):
    body = {"uuid": str(uuid4()), "choice": "cat", "rt_ms": 1.0, "stamps": {}, "flags": []}
    return body | more


ODD_TEXTS = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\r\nSet-Cookie: x=1", "\0",
    "a\0b", "\ud800", "=1+1", "+1", "@SUM(A1)", "\t=1", "=HYPERLINK(\"http://e\")", "' OR 1=1 --",
    "", " ", "a" * 129, "é", "\u202e", "{{7*7}}", "${7*7}", "../../x", "a b", "a%00",
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_TEXTS)
def test_odd_ids_are_rejected_and_not_repeated(client, odd):
    turk = {
        "assignmentId": "A",
        "hitId": "H",
        "workerId": "W",
        "turkSubmitTo": "https://www.mturk.com",
    }
    prolific = {"PROLIFIC_PID": "p", "STUDY_ID": "s", "SESSION_ID": "x"}
    sent = [("link", {"client": odd})]
    sent += [("mturk", turk | {name: odd}) for name in turk]
    sent += [("prolific", prolific | {name: odd}) for name in prolific]
    for platform, ids in sent:
        # as the bytes that a page could send: a lone surrogate is no text for anything else
        content = json.dumps(join_body(platform=platform, ids=ids))
        reply = client.post(JOIN, content=content, headers={"content-type": "application/json"})
        assert (reply.status_code, reply.json()["code"]) == (422, "bad_request")
        assert len(odd) < 3 or odd not in reply.text
    with client.database.reading() as db:
        assert (
            db.scalar(select(func.count()).select_from(IdentityRow).where(IdentityRow.ids != {}))
            == 0
        )


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "\ud800", "\0", "a" * 500, "constructor"]
)
def test_names_of_fields_are_not_repeated(client, visitor, name):
    headers = visitor.headers | {"content-type": "application/json"}
    trial = visitor.next()["trial"]["id"]
    for path, body in (
        (JOIN, join_body(**{name: 1})),
        (JOIN, join_body(ids={name: "x"})),
        (JOIN, join_body(screen={name: 1})),
        ("/api/session/tab", {"tab": str(uuid4()), name: 1}),
        ("/api/trials", {"key": str(uuid4()), name: 1}),
        (f"/api/trials/{trial}/response", response_body(stamps={name: 1})),
        (f"/api/trials/{trial}/response", response_body(flags=[name])),
        (f"/api/trials/{trial}/response", response_body(choice=name)),
    ):
        method = "PUT" if path.endswith("response") else "POST"
        reply = client.request(method, path, content=json.dumps(body), headers=headers)
        assert reply.status_code == 422
        assert "<script>" not in reply.text and len(reply.text) < 400


ODD_NUMBERS = [
    "NaN", "Infinity", "-Infinity", "-1", "1e400", "-1e-3", "3600001", "1" + "0" * 400, "9" * 5000,
    "true", '"1"', "[]", "{}", "18446744073709551616", "1e309",
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_NUMBERS)
def test_odd_numbers_are_rejected(client, visitor, odd):
    headers = visitor.headers | {"content-type": "application/json"}
    trial = visitor.next()["trial"]["id"]
    for path, body in (
        (JOIN, join_body(screen={"width": "ODD"})),
        (JOIN, join_body(screen={"ratio": "ODD"})),
        ("/api/session/tab", {"tab": str(uuid4()), "hz": "ODD"}),
        (f"/api/trials/{trial}/response", response_body(rt_ms="ODD")),
        (f"/api/trials/{trial}/response", response_body(stamps={"fixation": "ODD"})),
    ):
        content = json.dumps(body).replace('"ODD"', odd)
        method = "PUT" if path.endswith("response") else "POST"
        reply = client.request(method, path, content=content, headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (422, "bad_request"), content
    assert visitor.response(trial).status_code == 200


@pytest.mark.parametrize(
    "content",
    [b"", b"[" * 16000, b'{"a":' * 3000, b'"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"{}{}", b"null",
     b"[]", b"1", b'"x"', b"{'a': 1}", b"\0" * 100, b"<xml/>", b"key=1",
     b'{"key":"' + b"\\u0000" * 100 + b'"}'],
    ids=range(16),
)  # fmt: skip
def test_bodies_that_are_no_such_thing_are_rejected(client, visitor, content):
    headers = visitor.headers | {"content-type": "application/json"}
    trial = visitor.next()["trial"]["id"]
    paths = [JOIN, "/api/session/tab", "/api/trials", f"/api/trials/{trial}/response"]
    for path in paths:
        method = "PUT" if path.endswith("response") else "POST"
        reply = client.request(method, path, content=content, headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (422, "bad_request")


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "text/json", "", "application/xml", "application/json\t;x", "x" * 3000],
)  # fmt: skip
def test_a_form_of_another_site_cannot_send_an_response(client, visitor, kind):
    body = json.dumps(join_body(ids={"client": "never-to-be-seen"}))
    reply = client.post(JOIN, content=body, headers={"content-type": kind})
    assert reply.status_code in (201, 422)
    # a browser asks the server before it sends JSON elsewhere, and the server never agrees
    assert (reply.status_code == 201) <= kind.startswith("application/json")


def test_agreeing_is_said_in_one_way(client):
    for said in (False, None, 1, 1.0, "true", "yes", [], {}):
        assert client.post(JOIN, json=join_body(consent=said)).status_code == 422
    without = join_body()
    del without["consent"]
    assert client.post(JOIN, json=without).status_code == 422


def test_of_a_name_given_twice_the_last_counts_and_is_checked(client, visitor):
    trial = visitor.next()["trial"]["id"]
    headers = visitor.headers | {"content-type": "application/json"}
    content = json.dumps(response_body())[:-1] + ', "rt_ms": -5}'
    reply = client.put(f"/api/trials/{trial}/response", content=content, headers=headers)
    assert reply.status_code == 422
    content = json.dumps(response_body(rt_ms=-5))[:-1] + ', "rt_ms": 5}'
    reply = client.put(f"/api/trials/{trial}/response", content=content, headers=headers)
    assert reply.status_code == 200
    with client.database.reading() as db:
        own = select(ResponseRow.rt_ms).join(TrialRow).where(TrialRow.public_id == trial)
        assert db.scalar(own) == 5


def test_bodies_that_are_too_large_are_rejected(client, visitor):
    def drops():
        for _ in range(MAX_BYTES // 1000 + 1):
            yield b" " * 1000

    for path in (JOIN, "/api/trials", "/healthz", "/nowhere"):
        for content in (b" " * (MAX_BYTES + 1), drops()):
            headers = visitor.headers | {"content-type": "application/json"}
            reply = client.post(path, content=content, headers=headers)
            assert (reply.status_code, reply.json()["code"]) == (413, "too_large")
            assert reply.headers["connection"] == "close"
    for length in ("9" * 5000, "-1", "1e3", "0x10", "\xb2", "", " ", "+5"):
        reply = client.post(JOIN, headers=[(b"content-length", length.encode("latin1"))])
        assert (reply.status_code, reply.json()["code"]) == (413, "too_large"), length
    large = json.dumps(join_body()).ljust(MAX_BYTES)
    headers = {"content-type": "application/json"}
    assert client.post(JOIN, content=large, headers=headers).status_code == 201


def test_a_key_that_was_used_gets_another_trial(client, visitor):
    key = str(uuid4())
    first = visitor.next(key)["trial"]["id"]
    assert visitor.response(first).status_code == 200
    second = visitor.next(key)["trial"]["id"]
    assert second != first
    visitor.claim()
    assert visitor.next(key)["trial"]["id"] not in (first, second)


def test_whoever_takes_up_another_task_hands_in_that_one(client):
    turk = {
        "assignmentId": "A1",
        "hitId": "H",
        "workerId": "W9",
        "turkSubmitTo": "https://www.mturk.com",
    }
    first = Visitor(client, platform="mturk", ids=turk).begin()
    again = Visitor(client, platform="mturk", ids=turk | {"assignmentId": "A2"})
    again.browser = first.browser
    again.join(expect=200)
    with client.database.reading() as db:
        ids = db.scalars(select(IdentityRow.ids).join(ParticipantRow)).all()
    assert [each["assignmentId"] for each in ids if each] == ["A2"]
    # as if it had never been, for the tests that look for ids
    withdraw(client.study, again.state()["participant"])


# what goes wrong on this side


def test_an_image_that_is_missing_or_damaged_is_told_to_whoever_runs_the_study(tmp_path, caplog):
    folder = make_study(tmp_path / "s", sizes=Sizes(main=10, stimuli=1))
    with in_process(folder) as client:
        visitor = Visitor(client).begin()
        name = visitor.next()["trial"]["images"][0]
        whole = visitor.image(name).content
        [file] = folder.stimuli.glob(hashlib.sha256(whole).hexdigest() + ".png")
        kept = file.read_bytes()
        other = next(each for each in folder.stimuli.iterdir() if each != file).read_bytes()
        for content, word in (
            (None, "missing"),
            (b"", "damaged"),
            (kept[:-30], "damaged"),
            (other, "damaged"),
        ):
            caplog.clear()
            file.unlink(missing_ok=True)
            if content is not None:
                file.write_bytes(content)
            reply = visitor.image(name)
            assert (reply.status_code, reply.json()["code"]) == (503, "trouble")
            assert int(reply.headers["retry-after"]) > 0
            assert file.stem not in reply.text and str(folder.path) not in reply.text
            [line] = caplog.messages
            assert str(file) in line and word in line and "\n" not in line
            assert visitor.token not in line
        file.write_bytes(kept)
        assert visitor.image(name).content == whole


def test_a_database_that_does_not_response_is_told_in_one_line(tmp_path, caplog):
    folder = make_study(tmp_path / "s", sizes=Sizes(main=10, stimuli=1))
    with in_process(folder) as client:
        visitor = Visitor(client).begin()
        with client.database.writing() as db:
            db.execute(text("ALTER TABLE trial RENAME TO gone"))
        caplog.clear()
        for reply in (visitor.ask(), visitor.response(uuid4().hex)):
            assert (reply.status_code, reply.json()["code"]) == (503, "trouble")
            assert "trial" not in reply.text
        assert len(caplog.messages) == 2
        for line in caplog.messages:
            assert "no such table" in line and "\n" not in line
