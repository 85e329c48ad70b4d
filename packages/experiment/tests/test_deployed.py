"""A study deployed for real: nginx with TLS, PostgreSQL, the units' processes, load and backups."""

import asyncio
import json
import re
import shutil
import ssl
import subprocess
import threading
import time
from dataclasses import asdict
from uuid import uuid4

import httpx2
import numpy as np
import pytest

from alone import alone
from experiment_deployment import deploy, deployed, hold_slow_connections, need, psql
from experiment_invariants import address, rows, violations
from experiment_load_figures import Load, Result, summarize
from experiment_load_runs import RECOVERY_S, draw, make_load_study, process
from experiment_postgres import postgresql
from experiment_studies import Sizes, make_study
from eyechart_experiment.deploy.study_backup import back_up

BOUND_MS = 250.0
MANY = Sizes(main=500, stimuli=4, practice=16, qualification=16, catch=16)
FEW = Sizes(main=120, stimuli=2, practice=4, qualification=4, catch=4)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database():
    """The URL of an empty database on PostgreSQL."""
    with postgresql() as url:
        name = f"d{uuid4().hex}"
        psql(url, "-c", f"CREATE DATABASE {name}")
        yield url.replace("/postgres?", f"/{name}?")


@pytest.fixture
def fresh(database):
    """The URL of another empty database."""
    name = f"d{uuid4().hex}"
    psql(database, "-c", f"CREATE DATABASE {name}")
    return re.sub(r"/d[0-9a-f]{32}\?", f"/{name}?", database)


class Crowd:
    """Participants who take part while the test does something else."""

    def __init__(self, folder, load):
        self.folder, self.load = folder, load
        self.began = time.monotonic()

    def __enter__(self):
        path = self.folder.path
        (path / "load.json").write_text(json.dumps(asdict(self.load)), encoding="utf-8")
        words = (str(path / "load.json"), str(path / "result.json"))
        self._context = process("experiment_load.py", *words, log=path / "load.log")
        self.process = self._context.__enter__()
        return self

    def __exit__(self, *error):
        self._context.__exit__(*error)

    def wait_until(self, second):
        time.sleep(max(0.0, self.began + second - time.monotonic()))

    def result(self):
        self.process.wait(timeout=self.load.seconds + 120)
        assert self.process.returncode == 0, (self.folder.path / "load.log").read_text()
        text = (self.folder.path / "result.json").read_text(encoding="utf-8")
        return Result(**json.loads(text))


def p99(result, start, end):
    return float(np.percentile([ms for at, ms in result.latencies if start < at < end], 99))


def check(folder, result):
    assert violations(folder.database_url, result.sent, result.acknowledged) == {}


def test_systemd_nginx_logrotate_and_the_shell_accept_the_files(tmp_path, fresh):
    need("nginx", "openssl", "systemd-analyze", "logrotate")
    folder = make_study(tmp_path / "study", url=fresh)
    files = deploy(folder, tmp_path, 8001)
    for unit in sorted(files.glob("*.service")) + sorted(files.glob("*.timer")):
        # a template is verified as one of its instances
        name = unit.name.replace("@.", "@8001.")
        shutil.copy(unit, tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        # a user and a folder that this machine has
        for line, there in (("User=.*", "User=root"), ("Group=.*", "Group=root")):
            text = re.sub(line, there, text)
        (tmp_path / name).write_text(text, encoding="utf-8")
    units = [str(path) for path in sorted(tmp_path.glob("eyechart-*.*"))]
    assert len(units) == 3
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    site = (files / "nginx-small.conf").read_text(encoding="utf-8")
    (tmp_path / "nginx.conf").write_text(
        f"error_log {tmp_path}/e; pid {tmp_path}/pid; events {{}} http {{ {site} }}"
    )
    tested = subprocess.run(["nginx", "-t", "-c", tmp_path / "nginx.conf"], check=False,
                            capture_output=True, text=True)  # fmt: skip
    assert tested.returncode == 0 and "warn" not in tested.stderr, tested.stderr
    # logrotate looks the user up, which only the server has
    rotate = (files / "logrotate-small").read_text().replace("su eyechart eyechart", "su root root")
    (tmp_path / "rotate").write_text(rotate)
    (tmp_path / "rotate").chmod(0o644)
    debug = subprocess.run(["logrotate", "--debug", tmp_path / "rotate"], check=False,
                           capture_output=True, text=True)  # fmt: skip
    assert debug.returncode == 0 and "error" not in debug.stderr, debug.stderr
    subprocess.run(["sh", "-n", files / "restart-small.sh"], check=True)


def test_the_set_up_of_postgresql_creates_a_role_and_its_database(tmp_path, fresh):
    folder = make_study(tmp_path / "study", url=fresh)
    text = (deploy(folder, tmp_path, 8001) / "postgresql-small.sql").read_text()
    # the cluster has a superuser and a database of these names already
    text = re.sub(r"\beyechart\b", "lab", text).replace(address(fresh)["dbname"], "lab_data")
    (tmp_path / "setup.sql").write_text(text)
    psql(fresh, "-f", tmp_path / "setup.sql")
    query = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'lab_data'"
    assert psql(fresh, "-At", "-c", query).strip() == "lab"
    psql(fresh, "-c", "DROP DATABASE lab_data", "-c", "DROP ROLE lab")


def test_tls_and_its_headers_come_from_nginx_and_http_leads_to_https(tmp_path, fresh):
    folder = make_study(tmp_path / "study", url=fresh)
    with deployed(folder, tmp_path) as (_, where, authority):
        tls = ssl.create_default_context(cafile=authority)
        with httpx2.Client(base_url=where, verify=tls, trust_env=False) as client:
            reply = client.get("/s/small")
            assert reply.status_code == 200
            assert reply.headers["strict-transport-security"] == "max-age=31536000"
            assert reply.headers.get_list("content-security-policy")[0].startswith("default-src")
            assert client.head("/healthz").status_code == 200
            assert client.get("/status").status_code == 401
            assert client.post("/api/trials", content=b" " * 40_000).status_code == 413
        port = int(where.rpartition(":")[2]) + 1
        plain = httpx2.get(f"http://127.0.0.1:{port}/s/small?a=1", trust_env=False)
        assert (plain.status_code, plain.headers["location"]) == (
            301, "https://lab.example.org/s/small?a=1",
        )  # fmt: skip
    # nothing about participants is logged
    for log in ("site.log", "server.log", "nginx.log"):
        assert "127.0.0.1 -" not in (tmp_path / log).read_text()


@pytest.mark.timeout(600)
def test_a_rolling_restart_under_load_loses_nothing(tmp_path, fresh):
    images = draw(tmp_path / "images", MANY)
    folder = make_load_study(tmp_path / "study", images, MANY, url=fresh, k=5, trials=100, catch=8)
    with alone(), deployed(folder, tmp_path) as (processes, where, authority):
        stop = tmp_path / "stop"
        load = Load(where, "load", str(images.key), 300, authority=authority, stop=str(stop))
        with Crowd(folder, load) as crowd:
            crowd.wait_until(15)
            began = time.monotonic()
            processes.rolling_restart()
            seconds = time.monotonic() - began
            # it was under load all the time, however long a restart takes on this machine
            assert crowd.process.poll() is None
            time.sleep(10)
            stop.touch()
            result = crowd.result()
    print(f"\nrolling restart, {seconds:.0f} s: {dict(result.statuses)}")
    check(folder, result)
    assert len(result.acknowledged) > 500
    # nobody noticed: every request had its reply, and no reply was an error
    assert set(result.statuses) <= {"200", "201"}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.timeout(600)
def test_a_backup_under_load_has_every_response_acknowledged_before(tmp_path, kind, fresh):
    images = draw(tmp_path / "images", FEW)
    url = None if kind == "sqlite" else fresh
    # never full: all would come again and again from one address, and wait for the limit on joins
    folder = make_load_study(tmp_path / "study", images, FEW, url=url, k=50, trials=40, catch=2)
    with alone(), deployed(folder, tmp_path) as (_, where, authority):
        stop = tmp_path / "stop"
        load = Load(where, "load", str(images.key), 120, authority=authority, think_s=1.0,
                    stop=str(stop))  # fmt: skip
        with Crowd(folder, load) as crowd:
            # in the middle of it, however fast the machine is
            while rows(folder.database_url, "SELECT count(*) FROM response")[0][0] < 300:
                assert crowd.process.poll() is None
                time.sleep(0.2)
            began = time.time()
            backup = back_up(folder, tmp_path / "backups")
            assert crowd.process.poll() is None
            # so that there are responses that the backup cannot have
            time.sleep(5)
            stop.touch()
            result = crowd.result()
    check(folder, result)
    restored = f"sqlite:///{backup.file}"
    if kind == "postgresql":
        psql(url, "-c", "CREATE DATABASE restored")
        restored = re.sub(r"/d[0-9a-f]{32}\?", "/restored?", url)
        known = address(restored)
        subprocess.run(["pg_restore", "--no-owner", "-h", known["host"], "-U", known["user"],
                        "-d", "restored", backup.file], check=True)  # fmt: skip
    query = "SELECT t.public_id, r.choice FROM response r JOIN trial t ON t.id = r.trial_id"
    stored = dict(rows(restored, query))
    before = [trial for trial, moment in result.moments.items() if moment < began]
    print(f"\n{kind}: {len(before)} acknowledged before, {len(stored)} in the backup")
    assert len(before) > 200 and len(stored) < len(result.acknowledged)
    assert [t for t in before if stored.get(t) != result.acknowledged[t][1]] == []
    if kind == "postgresql":
        psql(url, "-c", "DROP DATABASE restored")


@pytest.mark.timeout(900)
def test_five_minutes_with_kills_a_restart_and_slow_connections(tmp_path, fresh):
    images = draw(tmp_path / "images", MANY)
    folder = make_load_study(tmp_path / "study", images, MANY, url=fresh, k=5, trials=100, catch=8)
    away, slow = [], []
    with alone(), deployed(folder, tmp_path) as (processes, where, authority):
        load = Load(where, "load", str(images.key), 300, authority=authority)
        with Crowd(folder, load) as crowd:
            one, two = processes.ports
            for second, port in ((60, one), (270, two)):
                if second == 270:
                    crowd.wait_until(120)
                    processes.rolling_restart()
                    crowd.wait_until(190)
                    holding = (time.time(), time.time() + 60)
                    thread = threading.Thread(
                        target=lambda: slow.extend(
                            asyncio.run(hold_slow_connections(where, authority, 300, 60))
                        )
                    )
                    thread.start()
                    thread.join()
                crowd.wait_until(second)
                killed = time.time()
                processes.end(port, 9)
                processes.start(port)
                away.append((killed, time.time() + RECOVERY_S))
            result = crowd.result()
    summary = summarize(result, away)
    during, before = p99(result, *holding), p99(result, holding[0] - 40, holding[0])
    print(f"\n{summary}; {dict(result.statuses)}")
    print(
        f"{len(slow)} slow connections, closed after at most {max(slow):.1f} s: p99 {before:.0f} ms"
    )
    print(f"before them and {during:.0f} ms meanwhile")
    check(folder, result)
    assert summary.acknowledged > 64 * 285 / 2 * 0.8
    assert max(slow) < 15 and len(slow) >= 900
    assert summary.p99 < BOUND_MS and during < BOUND_MS
