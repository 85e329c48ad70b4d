"""The status page, and what a server does about slow clients and second servers."""

import base64
import socket
import threading
import time
from contextlib import contextmanager, suppress
from decimal import Decimal

import httpx2
import pytest

from commands import assert_rejected
from experiment_invariants import rows
from experiment_studies import Sizes, make_study
from eyechart_experiment.payments import PayRates
from eyechart_experiment.server import request_limits
from eyechart_experiment.server.serve import exclusive_server, listen, make_server
from eyechart_experiment.server.status_page import read_monitor
from eyechart_experiment.storage.experiment_folder import connect_study
from eyechart_experiment.storage.tokens import status_token
from filled_studies import START, Robot, always, attentive, fill, right_with


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_study(
        tmp_path_factory.mktemp("status") / "study", name="watched",
        title="Blur & <noise>", sizes=Sizes(main=30, stimuli=2), k=3, trials=8, minutes=10,
    )  # fmt: skip
    fill(folder, [Robot(right_with(attentive), flags=[("timing", 0.3)])] * 4, minutes=6)
    fill(folder, [Robot(always("dog"))], state="failed", names="F", minutes=1)
    fill(folder, [Robot(right_with(attentive))], state="active", names="A", counts={"main": 3})
    return folder


@contextmanager
def serving(folder, monkeypatch, headers_s=10.0):
    monkeypatch.setattr(request_limits, "HEADERS_S", headers_s)
    monkeypatch.setattr("eyechart_experiment.server.serve.is_built", lambda: True)
    listener = listen("127.0.0.1", 0)
    server, study = make_server(folder)
    # signals belong to the main thread, which is pytest's
    monkeypatch.setattr(server, "capture_signals", lambda: contextmanager(lambda: (yield))())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    with study:
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(10)


def test_the_status_page_needs_the_token_and_agrees_with_the_database(folder, monkeypatch):
    token = status_token(folder.secret)
    basic = base64.b64encode(f"any:{token}".encode()).decode()
    with (
        serving(folder, monkeypatch) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        for sent in ({}, {"authorization": f"Bearer {token}x"}, {"authorization": "Basic !"}):
            reply = client.get("/status", headers=sent)
            assert reply.status_code == 401 and reply.headers["www-authenticate"][:5] == "Basic"
            assert "watched" not in reply.text
        page = client.get("/status", headers={"authorization": f"Basic {basic}"})
        by_bearer = client.get("/status", headers={"authorization": f"Bearer {token}"})
        assert client.get("/status.css").headers["content-type"] == "text/css; charset=utf-8"
        head = client.head("/healthz")
        assert (head.status_code, head.content) == (200, b"")
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.status_code == 200 and "Blur &amp; &lt;noise&gt;" in page.text
    ((taken,),) = rows(folder.database_url, "SELECT sum(taken) FROM stimulus WHERE role = 'main'")
    ((wanted,),) = rows(folder.database_url,
                        "SELECT sum(capacity) FROM stimulus WHERE role = 'main'")  # fmt: skip
    assert f"<b>{taken}</b> of {wanted} responses" in page.text
    # 4 sessions of 10 minutes at 12 an hour and 101.3 of 136.8 s of another, with a fee of 33.3 %
    assert "12.65 USD" in page.text
    assert by_bearer.text == page.text and token not in page.text


def test_the_reading_counts_what_was_stored(folder):
    with connect_study(folder) as study:
        monitor = read_monitor(study, PayRates(Decimal(2), Decimal(1)), START)
    assert monitor["cost"] == 4 * 3 + 2
    assert monitor["outcomes"]["active"] + monitor["outcomes"]["left"] == 1
    assert (monitor["outcomes"]["finished"], monitor["outcomes"]["failed"]) == (4, 1)
    flagged = rows(
        folder.database_url,
        """SELECT count(*) FROM response r
        JOIN trial t ON t.id = r.trial_id WHERE t.role = 'main' AND r.flags LIKE '%timing%'""",
    )
    main = rows(
        folder.database_url,
        """SELECT count(*) FROM response r
        JOIN trial t ON t.id = r.trial_id WHERE t.role = 'main'""",
    )
    assert monitor["flagged"] == pytest.approx(flagged[0][0] / main[0][0])
    assert sum(count for count in monitor["filled"].values()) == 60
    assert monitor["minutes"] == pytest.approx(6)


def test_connections_with_half_sent_headers_are_closed_and_others_are_served(folder, monkeypatch):
    with serving(folder, monkeypatch, headers_s=0.5) as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        try:
            for number, one in enumerate(slow):
                # a third send nothing, and a third keep sending a little
                if number % 3:
                    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ")
            began = time.monotonic()
            reply = httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
            assert reply.status_code == 200
            for _ in range(3):
                time.sleep(0.15)
                for one in slow[2::3]:
                    # may be closed by now
                    with suppress(OSError):
                        one.sendall(b"x")
            for one in slow:
                one.settimeout(20)
                # the end, or a reset for what was sent after it
                with suppress(ConnectionError):
                    assert one.recv(10) == b""
            assert time.monotonic() - began < 9
        finally:
            for one in slow:
                one.close()
        # an honest connection that is used twice stays open in between
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            assert client.get("/healthz").status_code == 200
            time.sleep(0.8)
            assert client.get("/healthz").status_code == 200


def test_a_second_server_on_one_sqlite_file_is_rejected_with_a_sentence(run, folder):
    with exclusive_server(folder):
        rejected = run("experiment", "serve", folder.path, "--port", 0)
        assert_rejected(rejected, "Another process serves", "PostgreSQL")
    with exclusive_server(folder):
        pass


def test_the_token_is_printed_when_asked_for(run, folder):
    result = run("experiment", "status", folder.path, "--token")
    assert result.out.strip() == status_token(folder.secret)
