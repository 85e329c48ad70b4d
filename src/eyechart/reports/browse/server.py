"""`eyechart report --serve`: serve the report and its images on the loopback interface."""

import json
import socketserver
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, urlsplit

from PIL import Image
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.version import __version__
from eyechart.images.stimulus import FILES
from eyechart.reports.browse.recorded_predictions import (
    RecordedPredictions,
    Sample,
    describe_runs,
    describe_sample,
    describe_samples,
    describe_tests,
)
from eyechart.reports.browse.sample_images import PublishedImages, RegeneratedImages
from eyechart.reports.html.page import page_file
from eyechart.reports.html.report_page import render_report
from eyechart.reports.series.report import Report

HTML, JSON, PNG = "text/html; charset=utf-8", "application/json; charset=utf-8", "image/png"
STYLE = "browser.css"
STATIC = {
    "/images": ("browser.html", HTML),
    "/browser.css": (STYLE, "text/css; charset=utf-8"),
    "/browser.js": ("browser.js", "text/javascript; charset=utf-8"),
}
LINK = '<a href="/images">All images</a>'
KEPT = 64
"""Maximum number of images kept in memory."""


@dataclass(frozen=True)
class Reply:
    """A reply: HTTP status, content type and content.

    `is_report` says whether the content is the report, which contains inline scripts.
    """

    status: int
    kind: str
    body: bytes
    is_report: bool = False


class RequestError(Exception):
    """A request that cannot be answered; the message is the reason."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def plain_reply(value: object, status: int = 200) -> Reply:
    """Return plain values as JSON."""
    # Browsers cannot parse NaN, which Python would write by default.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Reply(status, JSON, text.encode())


class Browser:
    """The report and its images; `images` is the new location of moved clean images."""

    def __init__(self, report: Report, images: Path | None = None) -> None:
        self.report = report
        self.recorded = {index: RecordedPredictions(run) for index, run in enumerate(report.runs)}
        self._clean_images = images
        # One per run, so that none is ever dropped: each keeps the list of clean images, which
        # is slow to collect.
        self._makers = lru_cache(None)(self._maker)
        self._images = lru_cache(KEPT)(self._draw)
        self._lock = Lock()

    def reply(self, path: str, query: str) -> Reply:
        """Return the reply for a URL path and query; errors are replies with a message."""
        try:
            return self._reply(path, query)
        except RequestError as error:
            return plain_reply({"error": str(error)}, error.status)
        except UsageError as error:
            return plain_reply({"error": str(error)}, 404)

    def _reply(self, path: str, query: str) -> Reply:
        if path in STATIC:
            name, kind = STATIC[path]
            text = page_file(name)
            if name == STYLE:
                # The report's style sheet defines the color variables up to its first blank line.
                text = page_file("report.css").partition("\n\n")[0] + "\n" + text
            return Reply(200, kind, text.encode())
        if path == "/":
            # From Python 3.12 on, `cached_property` has no lock: two requests would both render the
            # page.
            with self._lock:
                return Reply(200, HTML, self._page, is_report=True)
        if path == "/api/runs":
            _parameters(query)
            return plain_reply(
                {"runs": describe_runs(self.report), "tests": describe_tests(self.report)}
            )
        if path == "/api/rows":
            return self._samples(_parameters(query, "run", "corruption", "model", "space"))
        if path == "/api/row":
            return self._sample(_parameters(query, "run", "row", "space"))
        if path == "/image":
            return self._image(_parameters(query, "run", "row", "clean"))
        raise RequestError(404, "Nothing exists at this address: the report is at /.")

    @cached_property
    def _page(self) -> bytes:
        # A report opened from disk has only its embedded images, so the link to all images is added
        # here.
        return render_report(self.report).replace("</nav>", f"{LINK}\n</nav>", 1).encode()

    def _samples(self, query: Mapping[str, str]) -> Reply:
        recorded = self.recorded[self._run(query)]
        corruption, model = _text(query, "corruption"), _text(query, "model")
        if corruption not in recorded.corruptions:
            raise unknown_name("corruption", corruption, recorded.corruptions)
        if model not in recorded.run.models:
            raise unknown_name("model", model, recorded.run.models)
        spaces = recorded.run.results[model].spaces
        space = query.get("space", next(iter(spaces)))
        if space not in spaces:
            raise unknown_name("label space", space, spaces)
        return plain_reply(describe_samples(recorded, corruption, model, space))

    def _sample(self, query: Mapping[str, str]) -> Reply:
        sample = self._requested(query)
        run = self.report.runs[sample.run]
        section = next(section for section in self.report.sections if run in section.runs)
        space = query.get("space", "native")
        return plain_reply(describe_sample(self.recorded, section, sample, space))

    def _image(self, query: Mapping[str, str]) -> Reply:
        sample = self._requested(query)
        is_clean = query.get("clean", "0")
        if is_clean not in ("0", "1"):
            raise RequestError(400, f"clean must be 0 or 1, got {is_clean!r}.")
        # One at a time: two images at once would need twice the memory.
        with self._lock:
            image = self._images(sample.run, sample.row, is_clean == "1")
        return Reply(200, PNG, image)

    def _run(self, query: Mapping[str, str]) -> int:
        run = _whole(query, "run")
        if run not in self.recorded:
            raise RequestError(
                404, f"Run {run} does not exist; valid runs are 0 to {len(self.recorded) - 1}."
            )
        return run

    def _requested(self, query: Mapping[str, str]) -> Sample:
        """Return the requested sample."""
        run, row = self._run(query), _whole(query, "row")
        corruption = self.recorded[run].corruption_of(row)
        if corruption is None:
            raise RequestError(404, f"Run {run} has no row {row}.")
        return Sample(run, row, corruption)

    def _maker(self, index: int) -> PublishedImages | RegeneratedImages:
        run = self.report.runs[index]
        is_published = run.results.images.stimulus == FILES
        return (PublishedImages if is_published else RegeneratedImages)(run, self._clean_images)

    def _draw(self, run: int, row: int, is_clean: bool) -> bytes:
        recorded = self.recorded[run]
        corruption = recorded.corruption_of(row)
        assert corruption is not None
        table = recorded.sample(corruption, row)
        if not is_clean:
            return _png(self._makers(run).corrupted(table))
        clean = recorded.clean_sample(table["image"][0].as_py())
        if clean is None:
            raise UsageError("This run has no clean images.")
        return _png(self._makers(run).clean(clean))


def _parameters(query: str, *known: str) -> dict[str, str]:
    """Return the parameters of a request; unknown or repeated parameters are rejected."""
    try:
        values_by_name = parse_qs(query, keep_blank_values=True, max_num_fields=16, errors="strict")
    except ValueError:
        raise RequestError(400, "The parameters of the address cannot be read.") from None
    for name, values in values_by_name.items():
        if name not in known or len(values) > 1:
            problem = "is given twice" if name in known else "is not known here"
            raise RequestError(400, f"The parameter {name} {problem}.")
    return {name: values[0] for name, values in values_by_name.items()}


def _text(parameters: Mapping[str, str], name: str) -> str:
    if name not in parameters:
        raise RequestError(400, f"The parameter {name} is missing.")
    return parameters[name]


def _whole(parameters: Mapping[str, str], name: str) -> int:
    text = _text(parameters, name)
    # Up to 18 digits fit into int64, the type of row numbers. `isdecimal` alone is true for the
    # digits of other scripts, too.
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise RequestError(400, f"{name} must be a whole number, got {text!r}.")
    return int(text)


def _png(image: Tensor) -> bytes:
    """Return an image, uint8 (3, H, W), as a lossless PNG file."""
    buffer = BytesIO()
    levels = image.permute(1, 2, 0).contiguous().numpy()
    Image.fromarray(levels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


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
