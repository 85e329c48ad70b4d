"""What users see, one item a line: commands, public names, files of a run, pages, exit statuses.

    python tests/support/inventory.py [--write]

`tests/data/inventory.txt` holds the lines, so that whatever is added, renamed or removed shows in a
diff; `--write` (make record-inventory) writes them. Wording does not belong here: help texts,
sentences of pages and messages may change freely.
"""

import csv
import inspect
import json
import re
import sys
from collections.abc import Iterator
from difflib import unified_diff
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any

import pyarrow.parquet as pq
import typer
import yaml

import eyechart as ec
from eyechart.cli.app import add_separate_commands, app
from places import DATA, EXPERIMENT, ROOT
from reference_runs import COARSE, FINE, GATE_RULES, eyechart
from report_runs import save_enough

RECORDED = DATA / "inventory.txt"
CORRUPTIONS = ("--corruption", "gaussian_noise", "--corruption", "brightness")
FEW = ("--n-bootstrap", "10", *CORRUPTIONS)


def lines() -> Iterator[str]:
    """Yield all items."""
    add_separate_commands()
    yield from commands("eyechart", typer.main.get_command(app))
    yield from exit_statuses()
    for name in ec.__all__:
        yield from public_name(f"ec.{name}", getattr(ec, name))
    for suite in suites():
        yield from (f"suite {suite}: {name}" for name in ec.list_corruptions(suite))
    with TemporaryDirectory() as folder:
        yield from run_files(Path(folder))
    yield from documentation()


def commands(name: str, command: Any) -> Iterator[str]:
    """Yield a command and its options, or those of the commands in a group."""
    subcommands = getattr(command, "commands", {})
    yield f"{'group' if subcommands else 'command'} {name}"
    for parameter in command.params:
        flags = "/".join((*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            yield f"command {name}: argument {parameter.metavar or parameter.name}"
        elif parameter.name != "help":
            yield f"command {name}: {flags}{_default(parameter)}"
    for subname, subcommand in subcommands.items():
        yield from commands(f"{name} {subname}", subcommand)


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return " (required)"
    # a flag that is off, an empty list and None all mean: not given
    if value is None or value is False or value in ((), [], "") or callable(value):
        return ""
    return " = yes" if value is True else f" = {getattr(value, 'value', value)}"


def exit_statuses() -> Iterator[str]:
    """Yield the exit statuses that the documentation names, with the pages that do."""
    pages: dict[int, list[str]] = {}
    found = (*(ROOT / "docs").rglob("*.md"), *(EXPERIMENT / "docs").glob("*.md"))
    for page in sorted(found, key=lambda path: path.name):
        text = " ".join(page.read_text("utf-8").split())
        for sentence in re.findall(r"[Ee]xit status[^.]*", text):
            for number in re.findall(r"\b(?:[0-2]|70|1[34]\d)\b", sentence):
                pages.setdefault(int(number), []).append(page.name)
    for status, names in sorted(pages.items()):
        yield f"exit status {status}: {', '.join(dict.fromkeys(names))}"


def public_name(name: str, value: Any) -> Iterator[str]:
    """Yield a public name with its parameters, and the public members of a class."""
    if not callable(value):
        yield name
        return
    yield f"{name}({_parameters(value)})"
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return
    fields = getattr(value, "model_fields", None) or getattr(value, "__dataclass_fields__", {})
    members = {own for own in dir(value) if not own.startswith(("_", "model_"))}
    for member in sorted({*fields, *members} - _inherited(value)):
        method = inspect.getattr_static(value, member, None)
        if isinstance(method, FunctionType | classmethod | staticmethod):
            yield f"{name}.{member}({_parameters(getattr(value, member))})"
        else:
            yield f"{name}.{member}"


def _inherited(value: type) -> set[str]:
    """Return names of members that come from another package, such as pydantic's."""
    bases = [base for base in value.__mro__ if not base.__module__.startswith("eyechart")]
    return {name for base in bases for name in vars(base)}


def _parameters(value: Any) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:
        return "…"
    words = []
    for parameter in parameters:
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        is_given = parameter.default is not parameter.empty
        # an address in memory differs each time
        default = re.sub(r" at 0x\w+", "", repr(parameter.default)) if is_given else ""
        words.append(f"{star}{parameter.name}{'=' if is_given else ''}{default}")
    return ", ".join(words)


def suites() -> list[str]:
    """Return the names of the suites, as the command lists them."""
    return eyechart(["list", "suites"]).split()


def run_files(home: Path) -> Iterator[str]:
    """Yield the files of a run and of commands on it, with their columns, keys and sections."""
    run, levels, rules = home / "run", home / "levels", home / "rules.yaml"
    rules.write_text(GATE_RULES.replace("frost, brightness", "brightness"), encoding="utf-8")
    with TemporaryDirectory() as folder:
        images = save_enough(Path(folder) / "images")
        models = ("evaluate", FINE, COARSE, "--images", f"{images}", *FEW)
        eyechart([*models, "--n", "200", "--out", f"{run}"])
        eyechart([*models, "--suite", "imagenet-c", "--baseline", COARSE, "--out", f"{levels}"])
    eyechart(["testset", "make", "--n", "4", *CORRUPTIONS, "--out", f"{home / 'testset.parquet'}"])
    eyechart(["gate", f"{run}", "--against", f"{run}", "--rules", f"{rules}",
              "--json", f"{home / 'gate.json'}", "--evidence", f"{home / 'evidence.html'}",
              "--junit", f"{home / 'gate.xml'}", "--markdown", f"{home / 'gate.md'}"])  # fmt: skip
    both = [f"{run}", f"{levels}"]
    eyechart(["compare", *both, "--out", f"{home}"])
    eyechart(
        ["report", *both, "--out", f"{home / 'report.html'}", "--figures", f"{home / 'figures'}"]
    )
    eyechart(["report", f"{run}", "--out", f"{home / 'report.md'}"])
    rules.unlink()
    seen: dict[str, None] = {}
    for path in sorted(home.rglob("*")):
        if path.is_file():
            name = path.relative_to(home).as_posix()
            seen.update(dict.fromkeys(_items_of(path, name)))
    # the sections of a page keep their order
    yield from sorted(line for line in seen if line.startswith("file"))
    yield from (line for line in seen if line.startswith("page"))


def _items_of(path: Path, name: str) -> Iterator[str]:
    """Yield a file, and what is in it; of several for corruptions or samples, one."""
    name = re.sub(r"(vcr-)?(gaussian_noise|brightness)|\d{4}", "NAME", name)
    name = re.sub(r"(examples/).*(\.\w+)$", r"\1NAME\2", name)
    # both runs have the same files
    name = re.sub("^levels/", "run/", name)
    yield f"file {name}"
    if path.suffix == ".parquet":
        yield from (f"file {name}: {own.name} {own.type}" for own in pq.read_schema(path))
    elif path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            yield from (f"file {name}: {column}" for column in next(csv.reader(file)))
    elif path.suffix == ".json":
        content = json.loads(path.read_text("utf-8"))
        yield from (f"file {name}: {key}" for key in _keys(content))
    elif path.suffix == ".html" or path.name == "report.md":
        text = path.read_text("utf-8")
        headings = html_headings(text) if path.suffix == ".html" else markdown_headings(text)
        yield from (f"page {name}: {heading}" for heading in headings)


def _keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the keys of nested objects; names of models, corruptions and images are `*`."""
    if path.endswith(NOT_HERE):
        return
    if isinstance(value, list):
        for item in value:
            yield from _keys(item, f"{path}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            is_name = path.endswith(BY_NAME) or key in NAMES or not re.fullmatch(r"[\w -]+", key)
            step = f"{path}.{'*' if is_name else key}".removeprefix(".")
            yield step
            yield from _keys(item, step)


NOT_HERE = (".energy", "energy.sources")
"""Objects that depend on the machine."""

BY_NAME = ("digests", "versions", "coverage", ".spaces", "parameters", "models", "ways.*")
"""Objects whose keys are names."""

NAMES = {
    own for suite in ("vcr", "imagenet-c") for name in ec.list_corruptions(suite)
    for own in (name, name.rpartition("/")[2])
}  # fmt: skip
"""Names of corruptions."""


class _Headings(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.level = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if re.fullmatch("h[1-6]", tag):
            self.level = tag
            self.found.append(f"{tag} ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.level:
            self.level = ""

    def handle_data(self, data: str) -> None:
        if self.level:
            self.found[-1] += data


def html_headings(text: str) -> list[str]:
    """Return the headings of a page, with their levels."""
    parser = _Headings()
    parser.feed(re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL))
    headings = [" ".join(heading.split()) for heading in parser.found]
    return [re.sub(" (pass|fail|inconclusive)$", "", heading) for heading in headings]


def markdown_headings(text: str) -> list[str]:
    """Return the headings of a page, with their levels."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^(#+) (.*)$", text, flags=re.MULTILINE)
    return [f"h{len(signs)} {heading}" for signs, heading in found]


def documentation() -> Iterator[str]:
    """Yield the pages of the documentation in their order, with their sections."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    # tags of plugins are nothing that a plain reader knows
    navigation = yaml.safe_load(text[text.index("nav:") : text.index("exclude_docs:")])["nav"]
    for title, page in _pages(navigation):
        yield f"documentation {page}: {title}"
        path = ROOT / "docs" / page
        if not path.is_file():
            path = EXPERIMENT / "docs" / path.name
        if path.suffix == ".md":
            for heading in markdown_headings(path.read_text("utf-8")):
                yield f"documentation {page}: {heading}"


def _pages(navigation: Any, path: str = "") -> Iterator[tuple[str, str]]:
    for entry in navigation:
        for title, target in entry.items():
            if isinstance(target, str):
                yield f"{path}{title}", target
            else:
                yield from _pages(target, f"{path}{title} / ")


def difference() -> str:
    """Return how the lines differ from the recorded ones; "" if they do not."""
    recorded = RECORDED.read_text("utf-8").splitlines()
    return "\n".join(unified_diff(recorded, list(lines()), "recorded", "now", n=0, lineterm=""))


if __name__ == "__main__":
    if "--write" in sys.argv:
        RECORDED.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
    else:
        print(difference() or "All items are as recorded.")
