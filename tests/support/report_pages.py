"""Pages of reports on small real runs, read as a reader reads them: by titles, rows and columns."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from changing import replace
from eyechart.humans.human_responses import write_responses
from eyechart.humans.importing import import_responses
from eyechart.reports.html.report_page import render_report
from eyechart.reports.series.report import Report, load_report
from eyechart.results.schema import Results
from published_files import publish
from report_runs import (
    BLIND,
    DULL,
    SHARP,
    evaluate,
    hostile_run,
    human_run,
    levels_run,
    make_once,
    save_hues,
    save_onnx,
)
from small_models import save_images

VOID = {"meta", "img", "input", "link", "br", "hr"}
HEADINGS = ("h1", "h2", "h3", "h4")
COLORS, PALE = "small_models:colors", "small_models:pale_colors"


# Reading


@dataclass(eq=False)
class Node:
    """An element: its attributes, what is above it, and the elements and texts inside it."""

    tag: str
    own: dict[str, str] = field(default_factory=dict)
    above: "Node | None" = None
    inside: list["Node | str"] = field(default_factory=list)

    @property
    def nodes(self) -> Iterator["Node"]:
        """This element and all inside it, in the page's order."""
        yield self
        for each in self.inside:
            if isinstance(each, Node):
                yield from each.nodes

    def all(self, *tags: str, **attributes: str) -> list["Node"]:
        """The elements inside it of some kinds that have these attributes (`kind`: a class)."""
        return [
            node for node in self.nodes if node is not self and node.matches(*tags, **attributes)
        ]

    def matches(self, *tags: str, kind: str = "", **attributes: str) -> bool:
        """Whether it is of one of some kinds and has these attributes."""
        return (
            (not tags or self.tag in tags)
            and (not kind or kind in self.own.get("class", "").split())
            and all(self.own.get(name.replace("_", "-")) == own for name, own in attributes.items())
        )

    @property
    def chain(self) -> Iterator["Node"]:
        """This element, what is above it, and so on."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.above

    def within(self, *tags: str, **attributes: str) -> "Node | None":
        """The nearest element, itself or around it, of some kinds that has these attributes."""
        return next((node for node in self.chain if node.matches(*tags, **attributes)), None)

    @property
    def texts(self) -> Iterator[tuple["Node", str]]:
        """What can be read inside it, each text with its element."""
        for each in self.inside:
            if isinstance(each, str):
                yield self, each
            elif each.tag not in ("script", "style"):
                yield from each.texts

    @property
    def text(self) -> str:
        """What can be read inside it."""
        return " ".join("".join(text for _, text in self.texts).split())

    @property
    def numbers(self) -> list["Node"]:
        """The numbers inside it."""
        return self.all("data")

    @property
    def values(self) -> list[float]:
        """Its numbers, with all their digits."""
        return [float(node.own["value"]) for node in self.numbers]


@dataclass(frozen=True, eq=False)
class Row:
    """A row: whose it is, if it is a model's, and its cells; the first is its name."""

    model: str
    cells: tuple[Node, ...]
    is_total: bool

    @property
    def name(self) -> str:
        return self.cells[0].text


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it is read. `groups`: what stands above each of the `heads`, "" for nothing.

    `choice`: what is chosen to see it, "" if it always is.
    """

    id: str
    caption: str
    heads: tuple[str, ...]
    groups: tuple[str, ...]
    rows: tuple[Row, ...]
    choice: str
    note: str
    node: Node


class Page(HTMLParser):
    """What a page holds: numbers with their texts, ids, headings, scripts, tables, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = self._now = Node("")
        self.is_balanced = True
        self.feed(text)
        self.close()
        self.is_balanced &= self._now is self.root

    def handle_starttag(self, tag, attributes):
        node = Node(tag, {name: value or "" for name, value in attributes}, self._now)
        self._now.inside.append(node)
        if tag not in VOID:
            self._now = node

    def handle_endtag(self, tag):
        self.is_balanced &= self._now.tag == tag
        self._now = self._now.above or self.root

    def handle_data(self, text):
        self._now.inside.append(text)

    @cached_property
    def nodes(self) -> list[Node]:
        return list(self.root.nodes)[1:]

    @cached_property
    def tags(self) -> list[tuple[str, dict[str, str]]]:
        return [(node.tag, node.own) for node in self.nodes]

    @cached_property
    def numbers(self) -> list[tuple[dict[str, str], str]]:
        return [(node.own, node.text) for node in self.root.numbers]

    @property
    def scripts(self) -> list[tuple[dict[str, str], str]]:
        found = [node for node in self.nodes if node.tag == "script"]
        return [(node.own, "".join(map(str, node.inside))) for node in found]

    @property
    def headings(self) -> list[tuple[str, str]]:
        return [(node.tag, node.text) for node in self.nodes if node.tag in HEADINGS]

    @cached_property
    def text(self) -> str:
        return " ".join(" ".join(text for _, text in self.root.texts).split())

    def all(self, attribute: str) -> list[str]:
        return [own[attribute] for _, own in self.tags if attribute in own]

    def by_id(self, name: str) -> Node:
        (found,) = [node for node in self.nodes if node.own.get("id") == name]
        return found

    @property
    def specs(self) -> Any:
        (text,) = [text for own, text in self.scripts if own.get("id") == "chart-specs"]
        return json.loads(text)

    @cached_property
    def tables(self) -> list[Table]:
        return [self._table(node) for node in self.nodes if node.tag == "table"]

    def table(self, name: str) -> Table:
        (found,) = [table for table in self.tables if table.id == name]
        return found

    def _table(self, node: Node) -> Table:
        (heads,) = node.all("tr", kind="heads")
        titles = tuple(own.text for own in heads.all("th"))
        groups = [
            own.text
            for line in node.all("thead")[0].all("tr")
            if line is not heads
            for own in line.all("th", "td")
            for _ in range(int(own.own["colspan"]))
        ]
        rows = tuple(
            Row(
                line.own.get("data-model", ""),
                tuple(line.all("th", "td")),
                line.own.get("class") == "total",
            )
            for line in node.all("tbody")[0].all("tr")
        )
        assert all(len(row.cells) == len(titles) for row in rows)
        box = node.within("div", kind="table-box")
        assert box is not None
        notes = box.all("p", kind="note")
        return Table(
            node.own["id"],
            self.by_id(node.own["aria-labelledby"]).text,
            titles,
            tuple(groups) or ("",) * len(titles),
            rows,
            self._choice(box),
            notes[0].text if notes else "",
            node,
        )

    def _choice(self, box: Node) -> str:
        picked = next((own for own in box.chain if "data-picked" in own.own), None)
        if picked is None:
            return ""
        pickers = self.root.all("select", data_picks=picked.own["data-picked"])
        return pickers[0].all("option", value=picked.own["data-value"])[0].text if pickers else ""


def at(files: list[Any], place: str) -> Any:
    """Return what stands at a place of the page's kind in the files, looked up as RFC 6901 says."""
    run, *steps = place.split("/")
    found = files[int(run)]
    for step in steps:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def files_of(report: Report) -> list[Any]:
    """Return the results.json of each run, read by nothing of ours."""
    return [json.loads((run.folder / "results.json").read_text("utf-8")) for run in report.runs]


# Runs


def unlabeled_run(home: Path) -> Path:
    """One model whose pictures have no labels."""
    images = save_images(home / "plain", each=4)
    few = ("--n", 40, "--corruption", "gaussian_noise", "--corruption", "color_jitter")
    return evaluate(images, home / "unlabeled", *few, "--labels", "none", models=(COLORS,))


def native_run(home: Path) -> Path:
    """One model that knows no class that people were asked about, with labels."""
    images = save_images(home / "tints", each=4)
    return evaluate(
        images, home / "native", "--n", 40, "--corruption", "brightness", models=(PALE,)
    )


def entry16_run(home: Path) -> Path:
    """A model in people's categories only."""
    few = ("--n", 60, "--corruption", "gaussian_noise", "--labels", "entry16")
    return evaluate(_photos(home), home / "entry16", *few, models=(SHARP,))


def names_run(home: Path) -> Path:
    """The run whose names are HTML, in a folder of its own."""
    return hostile_run(home / "names")


SECRET, NAMES = "client-ward-seven", "patient-"
"""What stands in every path, and in the file name of every image, of the private run."""


def private_run(home: Path) -> Path:
    """A run whose folders, model, suite, human reference and images nobody is to know of."""
    folder = home / SECRET
    images = save_images(folder / "scans of the ward", each=3)
    for path in sorted(images.rglob("*.png")):
        path.rename(path.with_stem(f"{NAMES}{path.stem}"))
    (folder / "suites").mkdir()
    suite, table = folder / "suites" / "own.yaml", folder / "counts.csv"
    suite.write_text(OWN_SUITE)
    table.write_text("IQA,Accuracy,Count,Num_Accs\n0.1,1,60,60\n0.4,0.9,60,54\n0.8,0.6,60,36\n")
    humans = folder / "asked people.parquet"
    write_responses(humans, import_responses([table], "counts", corruption="film_noise"))
    (folder / "nets").mkdir()
    model = save_onnx(folder / "nets" / "classifier.onnx")
    asked = ("--suite", suite, "--n", 30, "--humans", humans, "--baseline", COLORS)
    done = evaluate(images, folder / "run", *asked, models=(model, COLORS))
    # As of a larger folder in which one file is no image.
    results = json.loads((done / "results.json").read_text("utf-8"))
    name = f"red/{NAMES}broken.png"
    results["images"]["damaged"].append({"name": name, "why": f"{images / name} is no image"})
    results["warnings"].append(f"Of {images}, {name} cannot be read.")
    (done / "results.json").write_text(json.dumps(results))
    return done


ALIKE = ("--n", 40, "--corruption", "gaussian_noise", "--corruption", "shot_noise")


def first_run(home: Path) -> Path:
    """The middling model under two noises that look alike to people."""
    return evaluate(_photos(home), home / "first", *ALIKE, models=(DULL,))


def second_run(home: Path) -> Path:
    """The other models in the same test, the best of them last."""
    return evaluate(_photos(home), home / "second", *ALIKE, models=(BLIND, SHARP))


def chance_run(home: Path) -> Path:
    """Two models next to people who had two choices, both sides corrected for chance."""
    table, humans = home / "counts.csv", home / "two choices.parquet"
    table.write_text("IQA,Accuracy,Count,Num_Accs\n0.1,1,60,60\n0.4,0.9,60,54\n0.8,0.6,60,36\n")
    told = {"corruption": "gaussian_noise", "choices": 2}
    write_responses(humans, import_responses([table], "counts", **told))
    asked = ("--n", 40, "--corruption", "gaussian_noise", "--humans", humans, "--chance-correct")
    return evaluate(_photos(home), home / "chance", *asked, models=(DULL, SHARP))


def files_run(home: Path) -> Path:
    """ImageNet-C's own files without the clean pictures."""
    clean = save_images(home / "before corruption", each=2)
    root = publish(clean, home / "published")
    return evaluate(root, home / "files", "--humans", "none", models=(PALE, COLORS))


OWN_SUITE = """
name: mine
title: My own
source: myself
corruptions:
  - {name: soft_lens, function: gaussian_blur, group: lens, path: &blur {sigma: [0.1, 6]},
     domain: *blur}
  - {name: film_noise, function: gaussian_noise, group: noise, path: &grain {sigma: [0.01, 0.6]},
     domain: *grain}
"""


def own_suite_run(home: Path) -> Path:
    """A suite of one's own, one of the models the baseline."""
    suite = home / "own.yaml"
    suite.write_text(OWN_SUITE)
    images = save_images(home / "own photos", each=10)
    asked = ("--suite", suite, "--n", 40, "--baseline", PALE)
    return evaluate(images, home / "own", *asked, models=(PALE, COLORS))


def _photos(home: Path) -> Path:
    images = home / "photos"
    return images if images.exists() else save_hues(images)


KINDS = {
    "both": (human_run, levels_run),
    "humans": (human_run,),
    "levels": (levels_run,),
    "unlabeled": (unlabeled_run,),
    "native": (native_run,),
    "entry16": (entry16_run,),
    "hostile": (names_run,),
    "two runs": (first_run, second_run),
    "chance": (chance_run,),
    "files": (files_run,),
    "own suite": (own_suite_run,),
}

_pages: dict[tuple[Path, str], tuple[Report, Page]] = {}


def make_page(factory: pytest.TempPathFactory, kind: str) -> tuple[Report, Page]:
    """Return the report of a kind and its page, made once in a process."""
    key = (factory.getbasetemp(), kind)
    if key not in _pages:
        report = load_report([make_once(factory, each) for each in KINDS[kind]])
        _pages[key] = (report, Page(render_report(report)))
    return _pages[key]


def maker(factory: pytest.TempPathFactory) -> Callable[[str], tuple[Report, Page]]:
    """Return what makes the report and the page of a kind."""
    return lambda kind: make_page(factory, kind)


def with_results(report: Report, results: Results) -> Report:
    """The report with other results in its first run, its order and colors as they were."""
    run = replace(report.runs[0], results=results)
    part = report.sections[0]
    models = tuple(replace(own, results=results.models[own.index]) for own in part.models)
    return replace(report, runs=(run,), sections=(replace(part, models=models, runs=(run,)),))
