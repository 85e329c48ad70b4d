"""`eyechart report --serve`: serve the report and its images on the loopback interface."""

import socketserver
import sys
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from eyechart.core.errors import UsageError
from eyechart.core.version import __version__
from eyechart.reports.browse.browser import Browser, Reply, plain_reply
from eyechart.reports.series.report import Report

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
"""Host names that requests from this machine may use."""

QUIET_S = 30
"""Seconds after which an idle connection is closed."""

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NOBODY_ELSE = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
OWN_POLICY = (
    "default-src 'none'; img-src 'self' blob: data:; style-src 'self'; script-src 'self';"
    f" connect-src 'self'; {NOBODY_ELSE}"
)
REPORT_POLICY = f"connect-src 'none'; {NOBODY_ELSE}"
"""Policy that is sent in addition to the report's own, which lists its scripts' digests."""


class Server(ThreadingHTTPServer):
    """Listens on loopback with a daemon thread per connection."""

    daemon_threads = True

    def __init__(self, browser: Browser, port: int) -> None:
        self.browser = browser
        super().__init__((LOOPBACK, port), Handler)

    @property
    def url(self) -> str:
        """URL of the report."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def server_bind(self) -> None:
        """Bind without looking up this machine's host name, which can be slow."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections closed by the browser; show other errors."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            traceback.print_exc()


class Handler(BaseHTTPRequestHandler):
    """Handles one connection."""

    server: Server
    # The default, HTTP/1.0, opens a connection for every image. Version 1.1 keeps it open, which
    # requires a Content-Length in every reply.
    protocol_version = "HTTP/1.1"
    server_version = f"eyechart/{__version__}"
    # Otherwise the Server header names the version of Python.
    sys_version = ""
    timeout = QUIET_S

    def do_GET(self) -> None:
        """Reply to a request for a page, an image or a table."""
        self._send(self._reply())

    do_HEAD = do_GET

    def _reject(self) -> None:
        # An unread body would be parsed as the next request.
        self.close_connection = True
        self._send(plain_reply({"error": "Only GET and HEAD are supported."}, 405))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _reject

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""

    def _reply(self) -> Reply:
        if not self._is_for_us():
            # DNS rebinding: a foreign host name may resolve to this machine, so that its page could
            # read the report.
            sentence = f"This server responds to {self.server.url} only."
            return plain_reply({"error": sentence}, 403)
        try:
            parts = urlsplit(self.path)
        except ValueError:
            return plain_reply({"error": "This is not a valid address."}, 400)
        try:
            return self.server.browser.reply(parts.path, parts.query)
        # The client is gone, so that no reply can be sent; `handle_error` ignores it.
        except ConnectionError:
            raise
        except Exception as error:
            traceback.print_exc()
            sentence = f"Internal error in eyechart ({type(error).__name__}: {error})."
            return plain_reply({"error": sentence}, 500)

    def _is_for_us(self) -> bool:
        hosts = self.headers.get_all("Host", [])
        allowed = [f"{name}:{self.server.server_port}" for name in NAMES]
        # Browsers leave the default port out of the header.
        if self.server.server_port == 80:
            allowed += NAMES
        return len(hosts) == 1 and hosts[0].strip().lower() in allowed

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        policy = REPORT_POLICY if reply.is_report else OWN_POLICY
        for name, value in {**ALWAYS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        if reply.status == 405:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)


def make_server(report: Report, port: int = 0, images: Path | None = None) -> Server:
    """Return a server that listens but does not reply yet; port 0 selects any free port.

    `images` is the folder of the clean images, if they have been moved since the runs.
    """
    if not isinstance(port, int) or not 0 <= port < 65536:
        raise UsageError(f"The port must be a whole number from 0 to 65535, got {port!r}.")
    if images is not None and not images.exists():
        raise UsageError(f"No such file or folder: {images}.")
    try:
        return Server(Browser(report, images), port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"Cannot listen on port {port}: {reason}; give another --port, or 0 for any free port."
        ) from None


def serve_report(
    report: Report,
    port: int = 0,
    images: Path | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the report at / and its images at /images until Ctrl-C; `ready` receives the URL."""
    with make_server(report, port, images) as server:
        try:
            ready(server.url)
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            pass  # Ctrl-C is the normal way to stop the server.
