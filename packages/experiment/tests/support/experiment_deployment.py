"""A study as a lab runs it: the files of `experiment deploy`, nginx with TLS, server processes.

systemd itself does not run in a container: what a unit starts is read from the unit and started.
"""

import asyncio
import contextlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from eyechart_experiment.deploy.deploy_files import write_deployment
from eyechart_experiment.deploy.deploy_settings import DeploySettings
from eyechart_experiment.storage.experiment_folder import StudyFolder, connect_study

DOMAIN = "lab.example.org"
MAIN = """\
daemon off; worker_processes 1; pid {room}/nginx.pid; error_log {room}/nginx.log;
events {{ worker_connections 2048; }}
http {{
    client_body_temp_path {room}/body; proxy_temp_path {room}/proxy;
    fastcgi_temp_path {room}/f; uwsgi_temp_path {room}/u; scgi_temp_path {room}/s;
    include {room}/site.conf;
}}
"""


def need(*programs: str) -> None:
    """Skip the test where a program is missing."""
    for name in programs:
        if shutil.which(name) is None:
            pytest.skip(f"install {name}, as apt install nginx-light postgresql systemd does")


def two_ports() -> int:
    """Return a port that is free, as is the next one."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            with contextlib.suppress(OSError):
                two.bind(("127.0.0.1", port + 1))
                return port


def certificate(folder: Path) -> Path:
    """Write a certificate that signs itself; return it."""
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={DOMAIN}",
         "-addext", f"subjectAltName=DNS:{DOMAIN},IP:127.0.0.1",
         "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder / "fullchain.pem"


def deploy(folder: StudyFolder, room: Path, port: int) -> Path:
    """Write the files of a deployment, with a program that runs these sources; return where."""
    program = room / "eyechart"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m eyechart "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    if not (room / "tls").is_dir():
        certificate(room / "tls")
    settings = DeploySettings(
        domain=DOMAIN, command=program, port=port, certificates=room / "tls",
        backups=room / "backups",
    )  # fmt: skip
    with connect_study(folder) as study:
        write_deployment(study, settings, room / "deploy")
    return room / "deploy"


def site_for_tests(text: str, room: Path, port: int) -> str:
    """Return nginx's site with other ports and another log, and nothing else changed."""
    text = re.sub(r" *listen \[::\].*\n", "", text)
    text = text.replace("listen 443 ", f"listen 127.0.0.1:{port} ")
    text = text.replace("listen 80;", f"listen 127.0.0.1:{port + 1};")
    return re.sub(r"error_log \S+", f"error_log {room}/site.log", text)


class Deployment:
    """The processes of a study, each on its port; can be killed, or restarted one by one."""

    def __init__(self, folder: StudyFolder, room: Path) -> None:
        self.folder, self.room = folder, room
        self.port = two_ports()
        self.files = deploy(folder, room, self.port)
        unit = (self.files / f"eyechart-{folder.config.name}@.service").read_text("utf-8")
        self.ports = [int(p) for p in re.findall(r"@(\d+)", unit.partition("[Unit]")[0])]
        self._start = re.search(r"^ExecStart=(.*)$", unit, re.M)[1].split()
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, port: int) -> None:
        """Start a process as its unit does, and wait until it is healthy."""
        words = [word.replace("%i", str(port)) for word in self._start]
        with (self.room / "server.log").open("ab") as log:
            self._running[port] = subprocess.Popen(words, stdout=log, stderr=log)
        until = time.monotonic() + 180
        while time.monotonic() < until:
            assert self._running[port].poll() is None, (self.room / "server.log").read_text()
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).is_success:
                    return
            time.sleep(0.2)
        raise AssertionError(f"{port} does not respond")

    def end(self, port: int, how: signal.Signals = signal.SIGTERM) -> None:
        """End a process, as systemd does or as a loss of power."""
        process = self._running.pop(port)
        process.send_signal(how)
        process.wait(timeout=30)

    def rolling_restart(self) -> None:
        """Do what restart.sh does: one after the other."""
        for port in self.ports:
            self.end(port)
            self.start(port)

    def close(self) -> None:
        for port in list(self._running):
            self.end(port, signal.SIGKILL)


@contextmanager
def deployed(folder: StudyFolder, room: Path) -> Iterator[tuple[Deployment, str, str]]:
    """Give a deployment that runs behind nginx, its address, and its certificate."""
    need("nginx", "openssl")
    with ExitStack() as stack:
        one = Deployment(folder, room)
        stack.callback(one.close)
        for port in one.ports:
            one.start(port)
        port = two_ports()
        site = (one.files / f"nginx-{folder.config.name}.conf").read_text(encoding="utf-8")
        (room / "site.conf").write_text(site_for_tests(site, room, port), encoding="utf-8")
        (room / "nginx.conf").write_text(MAIN.format(room=room), encoding="utf-8")
        nginx = subprocess.Popen(["nginx", "-c", room / "nginx.conf", "-e", room / "nginx.log"])
        stack.callback(nginx.wait)
        stack.callback(nginx.terminate)
        tls = ssl.create_default_context(cafile=str(room / "tls" / "fullchain.pem"))
        for _ in range(50):
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"https://127.0.0.1:{port}/healthz", verify=tls, trust_env=False):
                    break
            time.sleep(0.1)
        yield one, f"https://127.0.0.1:{port}", str(room / "tls" / "fullchain.pem")


async def hold_slow_connections(
    address: str, authority: str, n: int, seconds: float
) -> list[float]:
    """Hold connections that send half a request and no more; return how long each one lasted."""
    host, port = address.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=authority)
    until = time.monotonic() + seconds
    lasted: list[float] = []

    async def hold() -> None:
        while time.monotonic() < until:
            try:
                reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
            except OSError:
                continue
            began = time.monotonic()
            writer.write(b"POST /api/trials HTTP/1.1\r\nHost: lab\r\nX-Slow: ")
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await reader.read(1)
            except TimeoutError:
                # it was there to the end
                pass
            except OSError:
                # nginx resets what it does not wait for
                lasted.append(time.monotonic() - began)
            else:
                lasted.append(time.monotonic() - began)
            writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(n):
            group.create_task(hold())
    return lasted


def psql(url: str, *words: Any) -> str:
    """Return what psql prints for a database of a test's own cluster."""
    from experiment_invariants import address

    known = address(url)
    done = subprocess.run(
        ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", known["host"], "-U", known["user"],
         "-d", known["dbname"], *words],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
