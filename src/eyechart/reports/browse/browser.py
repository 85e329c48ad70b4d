"""What is behind each address of the server: a reply for a path and a query, without a network."""

import json
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.images.stimulus import FILES
from eyechart.reports.browse.answers import Answers
from eyechart.reports.browse.photographs import Maker, Photographs
from eyechart.reports.browse.published_pictures import PublishedPictures
from eyechart.reports.browse.recent import Recent
from eyechart.reports.browse.replies import about_row, about_rows, about_runs, about_tests
from eyechart.reports.html.report_page import render_report
from eyechart.reports.series.report import Part, Report

HTML, JSON, PNG = "text/html; charset=utf-8", "application/json; charset=utf-8", "image/png"
STYLE = "browser.css"
STATIC = {
    "/pictures": ("browser.html", HTML),
    "/browser.css": (STYLE, "text/css; charset=utf-8"),
    "/browser.js": ("browser.js", "text/javascript; charset=utf-8"),
}
LINK = '<a href="/pictures">All pictures</a>'
KEPT = 64
"""So many pictures stay in memory."""


@dataclass(frozen=True)
class Reply:
    """What goes back: a status, a type of content, and the content.

    `is_report`: whether it is the report, which has scripts of its own inside it.
    """

    status: int
    kind: str
    body: bytes
    is_report: bool = False


class Refused(Exception):
    """A request that cannot be answered; the sentence says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def plain_reply(value: Any, status: int = 200) -> Reply:
    """Return plain values as JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Reply(status, JSON, text.encode())


class Browser:
    """The report and its pictures; `images`: where photographs are, if not where they were."""

    def __init__(self, report: Report, images: Path | None = None) -> None:
        self.report = report
        self.answers = {index: Answers(run) for index, run in enumerate(report.runs)}
        self._images = images
        self._makers: Recent[int, Maker] = Recent(self._maker, max(1, len(report.runs)))
        self._pictures: Recent[tuple[int, int, bool], bytes] = Recent(self._draw, KEPT)
        self._lock = Lock()

    def reply(self, path: str, query: str) -> Reply:
        """Return what is at an address; what is wrong with it is said in a sentence."""
        try:
            return self._reply(path, query)
        except Refused as error:
            return plain_reply({"error": str(error)}, error.status)
        except UsageError as error:
            return plain_reply({"error": str(error)}, 404)

    def _reply(self, path: str, query: str) -> Reply:
        if path in STATIC:
            name, kind = STATIC[path]
            text = _template(name)
            return Reply(200, kind, (_colours() + text if name == STYLE else text).encode())
        if path == "/":
            with self._lock:
                return Reply(200, HTML, self._page, is_report=True)
        if path == "/api/runs":
            _Query(query, ())
            return plain_reply({"runs": about_runs(self.report), "tests": about_tests(self.report)})
        if path == "/api/rows":
            return self._rows(_Query(query, ("run", "corruption", "model", "space")))
        if path == "/api/row":
            return self._row(_Query(query, ("run", "row", "space")))
        if path == "/picture":
            return self._picture(_Query(query, ("run", "row", "clean")))
        raise Refused(404, "There is nothing at this address: the report is at /.")

    @cached_property
    def _page(self) -> bytes:
        # from disk the report has no pictures but its own, so the way to all is added here
        return render_report(self.report).replace("</nav>", f"{LINK}\n</nav>", 1).encode()

    def _rows(self, query: "_Query") -> Reply:
        answers = self.answers[self._run(query)]
        corruption, model = query.text("corruption"), query.text("model")
        if corruption not in answers.corruptions:
            raise Refused(404, str(unknown_name("corruption", corruption, answers.corruptions)))
        if model not in answers.run.models:
            raise Refused(404, str(unknown_name("model", model, answers.run.models)))
        spaces = answers.model(model).spaces
        space = query.given.get("space", next(iter(spaces)))
        if space not in spaces:
            raise Refused(404, str(unknown_name("label space", space, spaces)))
        return plain_reply(about_rows(answers, corruption, model, space))

    def _row(self, query: "_Query") -> Reply:
        run = self._run(query)
        row, corruption = self._which(run, query)
        part = self._part(run)
        space = query.given.get("space", "native")
        return plain_reply(about_row(self.answers, part, run, corruption, row, space))

    def _picture(self, query: "_Query") -> Reply:
        run = self._run(query)
        row, _ = self._which(run, query)
        is_clean = query.given.get("clean", "0")
        if is_clean not in ("0", "1"):
            raise Refused(400, f"clean must be 0 or 1, got {is_clean!r}.")
        return Reply(200, PNG, self._pictures[run, row, is_clean == "1"])

    def _run(self, query: "_Query") -> int:
        run = query.whole("run")
        if run not in self.answers:
            raise Refused(404, f"There is no run {run}: there are 0 to {len(self.answers) - 1}.")
        return run

    def _which(self, run: int, query: "_Query") -> tuple[int, str]:
        """Return the row that is asked for, and its corruption."""
        row = query.whole("row")
        corruption = self.answers[run].corruption_of(row)
        if corruption is None:
            raise Refused(404, f"Run {run} has no row {row}.")
        return row, corruption

    def _part(self, run: int) -> Part:
        own = self.report.runs[run]
        return next(part for part in self.report.parts if own in part.runs)

    def _maker(self, run: int) -> Maker:
        own = self.report.runs[run]
        is_published = own.results.images.stimulus == FILES
        return (PublishedPictures if is_published else Photographs)(own, self._images)

    def _draw(self, key: tuple[int, int, bool]) -> bytes:
        run, row, is_clean = key
        answers = self.answers[run]
        corruption = answers.corruption_of(row)
        assert corruption is not None
        table = answers.table(corruption, row)
        if not is_clean:
            return _png(self._makers[run].corrupted(table))
        clean = answers.clean_table(table["picture"][0].as_py())
        if clean is None:
            raise UsageError("This run was made without clean pictures.")
        return _png(self._makers[run].clean(clean))


class _Query:
    """The parameters of a request: each once, and none but the known ones."""

    def __init__(self, query: str, known: tuple[str, ...]) -> None:
        self.given: dict[str, str] = {}
        try:
            found = parse_qs(query, keep_blank_values=True, max_num_fields=16, errors="strict")
        except ValueError:
            raise Refused(400, "The address has parameters that cannot be read.") from None
        for name, values in found.items():
            if name not in known or len(values) > 1:
                what = "is given twice" if name in known else "is not known here"
                raise Refused(400, f"The parameter {name} {what}.")
            self.given[name] = values[0]

    def text(self, name: str) -> str:
        if name not in self.given:
            raise Refused(400, f"The parameter {name} is missing.")
        return self.given[name]

    def whole(self, name: str) -> int:
        text = self.text(name)
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise Refused(400, f"{name} must be a whole number, got {text!r}.")
        return int(text)


def _png(picture: Any) -> bytes:
    """Return a picture, uint8 (3, H, W), as a PNG file, without loss."""
    buffer = BytesIO()
    image = Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy())
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _template(name: str) -> str:
    return files("eyechart.reports.html").joinpath("templates", name).read_text(encoding="utf-8")


def _colours() -> str:
    """Return the head of the report's style sheet, which says what colours are called."""
    return _template("report.css").partition("\n\n")[0] + "\n"
