"""What every request must keep to and what every reply has: headers, pace, size."""

import asyncio
import re
import time
from random import Random

import pytest
from starlette.testclient import TestClient

from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart_experiment.server import routes
from eyechart_experiment.server.request_limits import Buckets, LimitMiddleware, RateLimit
from eyechart_experiment.server.serve import make_server

JOIN = "/api/studies/small/sessions"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_study(
        tmp_path_factory.mktemp("limits") / "study", sizes=Sizes(main=20, stimuli=1), min_trials=1
    )


@pytest.fixture(scope="module")
def client(folder):
    with in_process(folder) as one:
        yield one


# what every reply has


NEEDED = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store, no-transform",
    "cross-origin-resource-policy": "same-origin",
}


def assert_headers(reply):
    for name, value in NEEDED.items():
        assert reply.headers[name] == value
    policy = dict(
        part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["base-uri"] == "'none'"
    mturk = re.compile(r"https://[a-z]+\.mturk\.com")
    for name in ("form-action", "frame-ancestors"):
        first, *hosts = policy[name].split()
        assert first == "'self'" and hosts and all(map(mturk.fullmatch, hosts))
    names = {name.lower() for name in reply.headers}
    assert not any(name.startswith("access-control-") for name in names)
    assert not names & {"server", "x-powered-by", "set-cookie", "location", "etag"}


def test_every_reply_has_the_headers(folder, monkeypatch):
    origin = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    with in_process(folder) as client:
        client.follow_redirects = False
        visitor = Visitor(client).begin()
        trial = visitor.next()["trial"]
        found = {}
        for method, path in (
            ("GET", "/healthz"), ("GET", "/s/small"), ("GET", "/s/other"), ("GET", "/nowhere"),
            ("GET", "/healthz/"), ("DELETE", "/healthz"), ("HEAD", "/healthz"), ("OPTIONS", JOIN),
            ("TRACE", "/healthz"), ("POST", JOIN), ("GET", "/api/session"),
            ("GET", "/api/openapi.json"),
            ("GET", f"/api/images/{trial['images'][0]}"), ("POST", "/api/session/finish"),
            ("GET", "/api/studies/small"), ("GET", "/api/trials"), ("PROPFIND", "/"),
        ):  # fmt: skip
            reply = client.request(method, path, headers=visitor.headers | origin)
            found[method, path] = reply.status_code
            assert_headers(reply)
        assert found["DELETE", "/healthz"] == found["OPTIONS", JOIN] == 405
        assert found["GET", "/healthz/"] == 404
        assert_headers(client.post(JOIN, content=b" " * 20_000))
        client.get("/api/session")
        assert_headers(client.get("/api/session"))

    with in_process(folder, per_address=RateLimit(1, 1)) as client:
        client.get("/healthz")
        slow = client.get("/healthz")
        assert slow.status_code == 429
        assert_headers(slow)

    def fails(*_):
        raise RuntimeError("the truth is cat")

    monkeypatch.setattr(routes, "allocate", fails)
    with in_process(folder) as client:
        visitor = Visitor(client).begin()
        with pytest.raises(RuntimeError):
            visitor.ask()
        visitor.client = TestClient(client.app, raise_server_exceptions=False)
        broken = visitor.ask()
        assert (broken.status_code, broken.json()["code"]) == (500, "trouble")
        assert "cat" not in broken.text
        assert_headers(broken)


def test_a_method_that_a_route_has_not_is_rejected_with_those_that_it_has(client):
    for path, allowed in (("/healthz", "GET"), (JOIN, "POST"), ("/api/trials", "POST")):
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
            # monitors ask with HEAD whether a server is healthy
            if method != allowed and (method, path) != ("HEAD", "/healthz"):
                reply = client.request(method, path)
                assert reply.status_code == 405
                assert reply.headers["allow"] == allowed


def test_no_host_that_is_named_comes_back(client):
    for path in ("/healthz", "/healthz/", "/s/small", "/s/small/", "//evil.example/", "/api"):
        reply = client.get(
            path, headers={"host": "evil.example", "x-forwarded-host": "evil.example"}
        )
        assert "evil" not in reply.text and "evil" not in str(reply.headers)


# how fast


def test_one_token_and_one_address_may_ask_so_often(folder):
    with in_process(folder, per_token=RateLimit(0.01, 6)) as client:
        fast, other = Visitor(client).begin(), Visitor(client).begin()
        replies = [fast.client.get("/api/session", headers=fast.headers) for _ in range(8)]
        assert [reply.status_code for reply in replies] == [200] * 5 + [429] * 3
        assert replies[-1].json()["code"] == "too_fast"
        assert 1 <= int(replies[-1].headers["retry-after"]) <= 101
        # whichever way the token is written
        for kind in ("bearer", "BEARER"):
            headers = {"Authorization": f"{kind} {fast.token}"}
            assert client.get("/api/session", headers=headers).status_code == 429
        assert client.get("/api/session", headers=other.headers).status_code == 200
    with in_process(folder, per_address=RateLimit(0.01, 6)) as client:
        names = ("x-forwarded-for", "x-real-ip", "forwarded", "client-ip", "cf-connecting-ip")
        spoofed = [
            client.get("/healthz", headers=dict.fromkeys(names, f"10.0.0.{each}")).status_code
            for each in range(8)
        ]
        assert spoofed == [200] * 6 + [429] * 2


@pytest.mark.parametrize("behind, peer, believed", [
    (False, "127.0.0.1", False), (True, "127.0.0.1", True), (True, "203.0.113.7", False),
])  # fmt: skip
def test_only_a_proxy_on_this_machine_is_believed_and_only_if_there_is_one(
    folder, monkeypatch, behind, peer, believed
):
    monkeypatch.setattr("eyechart_experiment.server.serve.is_built", lambda: True)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    # two at once and four a second, for each address
    made, study = make_server(folder, behind_proxy=behind, pace=0.005)
    with study:
        made.config.load()
        client = TestClient(made.config.loaded_app, client=(peer, 5000))
        found = {
            client.get("/healthz", headers={"x-forwarded-for": f"10.0.0.{each}"}).status_code
            for each in range(30)
        }
    assert found == ({200} if believed else {200, 429})


def test_counting_requests_takes_a_bounded_memory():
    buckets = Buckets(RateLimit(1, 1))
    for each in range(30_000):
        assert buckets.wait(str(each), 0.0) == 0
    assert len(buckets._left) == 20_000
    assert buckets.wait("29999", 0.0) == 1

    async def app(scope, receive, send):
        raise AssertionError

    guard = LimitMiddleware(app)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "client": ("1.1.1.1", 1),
        "headers": [(b"authorization", b"Bearer " + b"x" * 9000)],
    }
    assert guard._rejection(scope) is None
    assert max(map(len, guard._tokens._left)) == 64


def test_so_many_requests_pass_as_the_pace_says():
    random, buckets, pace = Random(0), Buckets(RateLimit(5, 20)), 5
    now, passed = 0.0, 0
    for _ in range(5000):
        now += random.expovariate(50)
        passed += buckets.wait("one", now) == 0
    assert abs(passed - (20 + pace * now)) <= 1


def test_a_body_that_does_not_come_is_not_waited_for():
    async def app(scope, receive, send):
        raise AssertionError

    sent = []

    async def ask():
        async def receive():
            await asyncio.sleep(60)

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "client": ("1.1.1.1", 1),
            "headers": [(b"content-length", b"9")],
        }
        await LimitMiddleware(app, patience=0.05)(scope, receive, send)

    began = time.monotonic()
    asyncio.run(ask())
    assert time.monotonic() - began < 10
    assert sent[0]["status"] == 408 and b"too_slow" in sent[1]["body"]


def test_one_address_joins_under_many_names_at_a_slow_pace_only(folder):
    with in_process(folder, joins=RateLimit(0.01, 3)) as client:
        for _ in range(3):
            Visitor(client).join()
        rejected = Visitor(client).join(expect=429)
        assert rejected["code"] == "too_fast"
        # who is in goes on
        assert client.get("/api/studies/small").status_code == 200
