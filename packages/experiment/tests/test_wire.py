"""A real server process, spoken to in bytes: what no client that keeps to the rules would send."""

import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from json import dumps, loads
from select import select
from uuid import uuid4

import pytest

from experiment_studies import Sizes, make_study

PROGRAM = """
import sys
from eyechart_experiment.server import serve
from eyechart_experiment.storage.experiment_folder import open_study
serve.is_built = lambda: True  # the pages are not asked for here
own = serve.listen("127.0.0.1", 0)
print(own.getsockname()[1], flush=True)
with serve.ready_server(open_study(sys.argv[1]), own) as server:
    server.run(sockets=[own])
"""
JOIN = "/api/studies/small/sessions"


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """Give a server that runs, its port, and the files that its two outputs go to."""
    where = tmp_path_factory.mktemp("wire")
    folder = make_study(where / "study", sizes=Sizes(main=20, stimuli=1))
    with (where / "out").open("wb") as out, (where / "err").open("wb") as err:
        one = subprocess.Popen([sys.executable, "-c", PROGRAM, folder.path], stdout=out, stderr=err)
    try:
        while not (where / "out").read_text().endswith("\n"):
            assert one.poll() is None, (where / "err").read_text()
            time.sleep(0.05)
        one.folder, one.out, one.err = folder, where / "out", where / "err"
        one.port = int(one.out.read_text())
        yield one
    finally:
        one.terminate()
        one.wait(30)


@pytest.fixture(autouse=True)
def still_responses(process):
    """After whatever was sent, the server goes on as before."""
    yield
    assert ask(process, "GET", "/healthz")[0] == 200


def ask(process, method, path, body=None, **headers):
    """Send a request that keeps to the rules; return status, headers and body."""
    one = HTTPConnection("127.0.0.1", process.port, timeout=20)
    if body is not None:
        headers["Content-Type"] = "application/json"
    one.request(method, path, None if body is None else dumps(body), headers)
    reply = one.getresponse()
    content = reply.read()
    one.close()
    return reply.status, reply.headers, content


def connected(process):
    return socket.create_connection(("127.0.0.1", process.port), timeout=20)


def say(process, data, pieces=1):
    """Send bytes and return all that comes back until the server closes or has nothing to say."""
    with connected(process) as one:
        size = max(1, len(data) // pieces)
        # a server that has heard enough closes before all is said
        with suppress(ConnectionError):
            for start in range(0, len(data), size):
                one.sendall(data[start : start + size])
                # what is sent after the reply makes the server's system discard the reply
                if select([one], [], [], 0)[0]:
                    break
        got = b""
        with suppress(ConnectionError, TimeoutError):
            one.settimeout(2)
            while more := one.recv(65536):
                got += more
    return got


def statuses(got):
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3})", got)]


HEAD = b"POST /api/studies/small/sessions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def test_a_body_in_chunks_that_does_not_end_is_cut_off(process):
    chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
    got = say(process, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 500, pieces=50)
    assert statuses(got) == [413]
    assert b"too_large" in got and b"content-security-policy" in got and b"connection: close" in got


def test_a_body_in_chunks_that_is_small_enough_is_read(process):
    body = {"platform": "link", "ids": {"client": "in-chunks"}, "consent": True, "screen": {}}
    text = dumps(body).encode()
    chunks = b"".join(b"1\r\n" + bytes([each]) + b"\r\n" for each in text) + b"0\r\n\r\n"
    rest = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert statuses(say(process, HEAD + rest + chunks, pieces=7)) == [201]


def test_a_length_that_is_too_large_is_rejected_before_anything_is_read(process):
    got = say(process, HEAD + b"Content-Length: 999999999\r\n\r\n")
    assert statuses(got) == [413] and b"connection: close" in got


def test_a_second_request_cannot_be_hidden_in_a_first_one(process):
    hidden = b"GET /api/session HTTP/1.1\r\nHost: x\r\nX-Hidden: 1\r\n\r\n"
    both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    for lines in (
        both + hidden,
        b"Content-Length: 4\r\nContent-Length: 90\r\n\r\n" + hidden,
        b"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + hidden,
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden,
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
        b"Content-Length: 0x4\r\n\r\n" + hidden,
    ):
        found = statuses(say(process, HEAD + lines))
        # rejected; or else the first is read to its end, and what follows is a request like any
        assert found in ([400], [413], [501], [422, 401]), (lines, found)
        assert found != [422, 401] or lines.startswith(both)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
        b"GET\r\n\r\n",
        b"\r\n" * 5000,
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Bomb: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: a\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a\n b\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_request_is_rejected(process, data):
    # the last one is a request for nothing, followed by what is none
    assert statuses(say(process, data)) in ([], [400], [404], [404, 400])


@pytest.mark.parametrize(
    "target",
    ["/../secret", "/s/../../secret", "/s/..%2f..%2fsecret", "/s/%00", "//etc/passwd", "*",
     "/s/%ff", "/assets/..%2f..%2fserver.py", "http://evil.example/healthz",
     "/s/small%0d%0aX-Evil:1", "/%2e%2e/secret"],
)  # fmt: skip
def test_targets_that_a_browser_would_not_send_are_rejected(process, target):
    got = say(process, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert statuses(got) in ([404], [405], [422])
    assert b"evil" not in got.lower()
    assert process.folder.secret.hex().encode() not in got


def test_a_connection_is_used_again_and_a_websocket_is_not_opened(process):
    one = HTTPConnection("127.0.0.1", process.port, timeout=20)
    for _ in range(3):
        one.request("GET", "/healthz")
        reply = one.getresponse()
        assert loads(reply.read()) == {"status": "ok"}
        assert "server" not in reply.headers
    one.close()
    upgrade = (
        b"GET /api/session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    assert statuses(say(process, upgrade)) == [401]


def test_those_who_say_nothing_or_half_of_it_keep_nobody_waiting(process):
    halves = [
        b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", HEAD + b"Content-Length: 100\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    ]  # fmt: skip
    with ExitStack() as stack:
        for half in halves * 40:
            stack.enter_context(connected(process)).sendall(half)
        began = time.monotonic()
        for _ in range(5):
            assert ask(process, "GET", "/api/studies/small")[0] == 200
        assert time.monotonic() - began < 10


def test_nothing_of_participants_is_printed_and_the_end_is_quiet(process):
    person, tab = f"person-{uuid4().hex}", str(uuid4())
    ids = {"PROLIFIC_PID": person, "STUDY_ID": "s", "SESSION_ID": "x"}
    body = {"platform": "prolific", "ids": ids, "consent": True, "screen": {}}
    token = loads(ask(process, "POST", JOIN, body)[2])["token"]
    signed = {"Authorization": f"Bearer {token}", "X-Tab": tab}
    state = loads(ask(process, "POST", "/api/session/tab", {"tab": tab}, **signed)[2])
    trial = loads(ask(process, "POST", "/api/trials", {"key": tab}, **signed)[2])["trial"]
    for file in process.folder.stimuli.iterdir():
        file.rename(file.with_suffix(".away"))
    assert ask(process, "GET", f"/api/images/{trial['images'][0]}", **signed)[0] == 503
    for file in process.folder.stimuli.iterdir():
        file.rename(file.with_suffix(".png"))
    response = {"uuid": tab, "choice": "cat", "rt_ms": 1, "stamps": {}, "flags": []}
    assert ask(process, "PUT", f"/api/trials/{trial['id']}/response", response, **signed)[0] == 200
    assert ask(process, "GET", "/nowhere?" + person, **signed)[0] == 404
    told = process.err.read_text()
    assert re.fullmatch(r"\d+\n", process.out.read_text())
    assert "Traceback" not in told
    assert len([line for line in told.splitlines() if "is missing" in line]) == 1
    for word in (person, token, tab, state["participant"], trial["id"], "127.0.0.1"):
        assert word not in told


def test_a_signal_ends_it(tmp_path):
    folder = make_study(tmp_path / "study", sizes=Sizes(main=4, stimuli=1))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, folder.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as one:
        try:
            one.port = int(one.stdout.readline())
            assert ask(one, "GET", "/healthz")[0] == 200
            one.send_signal(signal.SIGTERM)
            _, told = one.communicate(timeout=30)
        finally:
            one.kill()
    assert told == b""
