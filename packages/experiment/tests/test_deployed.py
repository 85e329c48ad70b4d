"""A study as a lab runs it: the units in the documentation, two processes, backups under load."""

import json
import re
import shlex
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import pytest

from alone import alone
from commands import assert_rejected
from experiment_invariants import address, rows, violations
from experiment_load_figures import Load, Result
from experiment_load_runs import Server, draw, make_load_study, process
from experiment_postgres import postgresql, psql
from experiment_studies import Sizes
from eyechart_experiment.backup import back_up

PAGE = Path(__file__).parents[1] / "docs" / "experiment.md"
MANY = Sizes(main=500, stimuli=4, practice=16, qualification=16, catch=16)
FEW = Sizes(main=120, stimuli=2, practice=4, qualification=4, catch=4)


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

    def __init__(self, folder, load, name="load"):
        self.load = load
        self.given, self.target, self.log = (
            folder.path / f"{name}{ending}" for ending in (".json", ".result.json", ".log")
        )
        self.began = time.monotonic()

    def __enter__(self):
        self.given.write_text(json.dumps(asdict(self.load)), encoding="utf-8")
        words = (str(self.given), str(self.target))
        self._context = process("experiment_load.py", *words, log=self.log)
        self.process = self._context.__enter__()
        return self

    def __exit__(self, *error):
        self._context.__exit__(*error)

    def wait_until(self, second):
        time.sleep(max(0.0, self.began + second - time.monotonic()))

    def result(self):
        self.process.wait(timeout=self.load.seconds + 120)
        assert self.process.returncode == 0, self.log.read_text()
        return Result(**json.loads(self.target.read_text(encoding="utf-8")))


@contextmanager
def processes(folder, number):
    """Give server processes of one study."""
    servers = [Server(folder, 1.0) for _ in range(number)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.kill()


def documented(path):
    """Return a configuration file from the documentation, whose first line names its path."""
    blocks = re.findall(r"```(?:ini|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (text,) = (block for block in blocks if block.startswith(f"# {path}\n"))
    return text


UNITS = ("eyechart@.service", "eyechart-backup.service", "eyechart-backup.timer")


def test_systemd_accepts_the_documented_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("install systemd, which checks units")
    for name in UNITS:
        text = documented(f"/etc/systemd/system/{name}")
        # a user and a program that this machine has
        text = re.sub("User=.*", "User=root", text)
        text = text.replace("/opt/eyechart/bin/eyechart", "/bin/true")
        (tmp_path / name.replace("@.", "@8001.")).write_text(text, encoding="utf-8")
    units = sorted(str(path) for path in tmp_path.iterdir())
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert (len(units), done.returncode, done.stderr) == (3, 0, "")


@pytest.mark.parametrize("name", UNITS[:2])
def test_the_command_line_accepts_what_the_documented_units_start(run, name):
    text = documented(f"/etc/systemd/system/{name}")
    (command,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
    words = shlex.split(command.replace("%i", "8001"))[1:]
    # All that is missing is the study.
    assert_rejected(run(*words), "No such folder: /srv/blur-study")


def test_caddy_accepts_the_documented_site(tmp_path):
    if shutil.which("caddy") is None:
        pytest.skip("install caddy, which checks the site")
    (tmp_path / "Caddyfile").write_text(documented("/etc/caddy/Caddyfile"), encoding="utf-8")
    words = ["caddy", "adapt", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "127.0.0.1:8002" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_share_a_database_and_lose_nothing_when_each_is_killed(tmp_path, fresh):
    images = draw(tmp_path / "images", MANY)
    folder = make_load_study(tmp_path / "study", images, MANY, url=fresh, k=5, trials=100, catch=8)
    with alone(), processes(folder, 2) as servers, ExitStack() as stack:
        loads = [
            Load(server.address, "load", str(images.key), 90, participants=32) for server in servers
        ]
        crowds = [
            stack.enter_context(Crowd(folder, load, f"load{number}"))
            for number, load in enumerate(loads)
        ]
        for second, server in zip((25, 55), servers, strict=True):
            crowds[0].wait_until(second)
            assert all(crowd.process.poll() is None for crowd in crowds)
            server.start()
        results = [crowd.result() for crowd in crowds]
    sent, acknowledged = {}, {}
    for result in results:
        assert set(result.statuses) <= {"200", "201", "lost"} and len(result.acknowledged) > 500
        sent |= result.sent
        acknowledged |= result.acknowledged
    assert violations(folder.database_url, sent, acknowledged) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.timeout(600)
def test_a_backup_under_load_has_every_response_acknowledged_before(tmp_path, kind, fresh):
    images = draw(tmp_path / "images", FEW)
    url = None if kind == "sqlite" else fresh
    # never full: all would come again and again from one address, and wait for the limit on joins
    folder = make_load_study(tmp_path / "study", images, FEW, url=url, k=50, trials=40, catch=2)
    with alone(), processes(folder, 1) as (server,):
        stop = tmp_path / "stop"
        load = Load(server.address, "load", str(images.key), 120, think_s=1.0, stop=str(stop))
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
    assert violations(folder.database_url, result.sent, result.acknowledged) == {}
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
