"""A small Mechanical Turk on this machine: a page that frames a task, and externalSubmit."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs


@dataclass
class Turk:
    """`submitted`: the forms that came, by assignment; a second one for the same is rejected.

    `task`: the address that is framed. `lose`: how many replies are lost after the form was taken.
    """

    host: str = ""
    task: str = ""
    lose: int = 0
    submitted: dict[str, dict[str, str]] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)


@contextmanager
def mechanical_turk() -> Iterator[Turk]:
    """Give a Mechanical Turk that runs meanwhile. Its host's name is not that of the study."""
    turk = Turk()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, f'<iframe width="1200" height="760" src="{escape(turk.task)}"></iframe>')

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", "0"))
            read = parse_qs(self.rfile.read(size).decode())
            fields = {name: values[0] for name, values in read.items()}
            own = fields.get("assignmentId", "")
            if self.path != "/mturk/externalSubmit" or not own or len(fields) < 2:
                turk.rejected.append(f"{self.path} {fields}")
                self._say(400, "<h1 id=result>bad</h1>")
                return
            if own in turk.submitted:
                turk.rejected.append(f"again {own}")
                self._say(400, "<h1 id=result>This HIT was submitted already.</h1>")
                return
            turk.submitted[own] = fields
            if turk.lose:
                turk.lose -= 1
                self.close_connection = True
                return
            self._say(200, "<h1 id=result>Thank you</h1>")

        def _say(self, status: int, text: str) -> None:
            body = f"<!doctype html><title>Turk</title>{text}".encode()
            self.send_response(status)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # localhost and 127.0.0.1 are two sites to a browser, as Mechanical Turk and a study are
    turk.host = f"http://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield turk
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
