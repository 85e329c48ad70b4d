"""Replies of the server to requests for URL paths; networking is in `server`."""

import json
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs

from PIL import Image
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.images.stimulus import FILES
from eyechart.reports.browse.api import (
    Sample,
    describe_runs,
    describe_sample,
    describe_samples,
    describe_tests,
)
from eyechart.reports.browse.published_images import PublishedImages
from eyechart.reports.browse.recorded_predictions import LastUsed, RecordedPredictions
from eyechart.reports.browse.regenerated_images import ImageMaker, RegeneratedImages
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
        self._makers: LastUsed[int, ImageMaker] = LastUsed(self._maker, max(1, len(report.runs)))
        self._images: LastUsed[tuple[int, int, bool], bytes] = LastUsed(self._draw, KEPT)
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
            text = _template(name)
            return Reply(200, kind, (_colors() + text if name == STYLE else text).encode())
        if path == "/":
            # From Python 3.12 on, `cached_property` has no lock: two requests would both render the
            # page.
            with self._lock:
                return Reply(200, HTML, self._page, is_report=True)
        if path == "/api/runs":
            _Query(query, ())
            return plain_reply(
                {"runs": describe_runs(self.report), "tests": describe_tests(self.report)}
            )
        if path == "/api/rows":
            return self._samples(_Query(query, ("run", "corruption", "model", "space")))
        if path == "/api/row":
            return self._sample(_Query(query, ("run", "row", "space")))
        if path == "/image":
            return self._image(_Query(query, ("run", "row", "clean")))
        raise RequestError(404, "Nothing exists at this address: the report is at /.")

    @cached_property
    def _page(self) -> bytes:
        # A report opened from disk has only its embedded images, so the link to all images is added
        # here.
        return render_report(self.report).replace("</nav>", f"{LINK}\n</nav>", 1).encode()

    def _samples(self, query: "_Query") -> Reply:
        recorded = self.recorded[self._run(query)]
        corruption, model = query.text("corruption"), query.text("model")
        if corruption not in recorded.corruptions:
            raise RequestError(
                404, str(unknown_name("corruption", corruption, recorded.corruptions))
            )
        if model not in recorded.run.models:
            raise RequestError(404, str(unknown_name("model", model, recorded.run.models)))
        spaces = recorded.model(model).spaces
        space = query.parameters.get("space", next(iter(spaces)))
        if space not in spaces:
            raise RequestError(404, str(unknown_name("label space", space, spaces)))
        return plain_reply(describe_samples(recorded, corruption, model, space))

    def _sample(self, query: "_Query") -> Reply:
        sample = self._requested(query)
        run = self.report.runs[sample.run]
        part = next(part for part in self.report.parts if run in part.runs)
        space = query.parameters.get("space", "native")
        return plain_reply(describe_sample(self.recorded, part, sample, space))

    def _image(self, query: "_Query") -> Reply:
        sample = self._requested(query)
        is_clean = query.parameters.get("clean", "0")
        if is_clean not in ("0", "1"):
            raise RequestError(400, f"clean must be 0 or 1, got {is_clean!r}.")
        return Reply(200, PNG, self._images[sample.run, sample.row, is_clean == "1"])

    def _run(self, query: "_Query") -> int:
        run = query.whole("run")
        if run not in self.recorded:
            raise RequestError(
                404, f"Run {run} does not exist; valid runs are 0 to {len(self.recorded) - 1}."
            )
        return run

    def _requested(self, query: "_Query") -> Sample:
        """Return the requested sample."""
        run, row = self._run(query), query.whole("row")
        corruption = self.recorded[run].corruption_of(row)
        if corruption is None:
            raise RequestError(404, f"Run {run} has no row {row}.")
        return Sample(run, row, corruption)

    def _maker(self, index: int) -> ImageMaker:
        run = self.report.runs[index]
        is_published = run.results.images.stimulus == FILES
        return (PublishedImages if is_published else RegeneratedImages)(run, self._clean_images)

    def _draw(self, key: tuple[int, int, bool]) -> bytes:
        run, row, is_clean = key
        recorded = self.recorded[run]
        corruption = recorded.corruption_of(row)
        assert corruption is not None
        table = recorded.sample(corruption, row)
        if not is_clean:
            return _png(self._makers[run].corrupted(table))
        clean = recorded.clean_sample(table["image"][0].as_py())
        if clean is None:
            raise UsageError("This run has no clean images.")
        return _png(self._makers[run].clean(clean))


class _Query:
    """The parameters of a request; unknown or repeated parameters are rejected."""

    def __init__(self, query: str, known: tuple[str, ...]) -> None:
        self.parameters: dict[str, str] = {}
        try:
            values_by_name = parse_qs(
                query, keep_blank_values=True, max_num_fields=16, errors="strict"
            )
        except ValueError:
            raise RequestError(400, "The parameters of the address cannot be read.") from None
        for name, values in values_by_name.items():
            if name not in known or len(values) > 1:
                problem = "is given twice" if name in known else "is not known here"
                raise RequestError(400, f"The parameter {name} {problem}.")
            self.parameters[name] = values[0]

    def text(self, name: str) -> str:
        if name not in self.parameters:
            raise RequestError(400, f"The parameter {name} is missing.")
        return self.parameters[name]

    def whole(self, name: str) -> int:
        text = self.text(name)
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


def _template(name: str) -> str:
    return files("eyechart.reports.html").joinpath("templates", name).read_text(encoding="utf-8")


def _colors() -> str:
    """Return the beginning of the report's style sheet, which defines the color variables."""
    # The first blank line of the file ends the definitions of the variables.
    return _template("report.css").partition("\n\n")[0] + "\n"
