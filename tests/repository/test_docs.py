"""What the documentation shows works: its Python and its commands are run."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
import yaml
from PIL import Image

from eyechart.cli.app import add_separate_commands, app, main
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.corruptions.suites.suite import all_entries, load_suite
from eyechart.models.registries import DEFENSES, NETWORKS
from places import EXPERIMENT, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *EXPERIMENT.glob("docs/*.md")]
add_separate_commands()
COMMAND_LINE = typer.main.get_command(app)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text("utf-8")) if name == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the examples speak of."""
    levels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(levels).save(tmp_path / "photo.jpg")
    (tmp_path / "photos").mkdir()
    Image.fromarray(levels[:32]).save(tmp_path / "photos" / "one.png")
    (table,) = blocks(ROOT / "docs" / "how-to" / "overlap.md", "csv")
    (tmp_path / "accuracies.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page, folder):
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_examples_run(page, folder):
    for block in blocks(page, "bash"):
        for line in block.splitlines():
            if line.startswith("eyechart "):
                with pytest.raises(SystemExit) as stop:
                    main(shlex.split(line, comments=True)[1:])
                assert stop.value.code == 0, line


def test_there_are_examples():
    assert blocks(ROOT / "README.md", "python")
    assert len(blocks(ROOT / "docs" / "tutorial" / "quickstart.md", "python")) > 3
    assert blocks(ROOT / "docs" / "tutorial" / "quickstart.md", "bash")


def test_the_table_of_packages_names_each_of_them():
    rows = re.findall(
        r"^\| ((?:`\w+`,? ?)+) \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M
    )
    named = re.findall(r"`(\w+)`", " ".join(rows))
    packages = {path.parent.name for path in (ROOT / "src" / "eyechart").glob("*/__init__.py")}
    assert len(packages) > 15
    assert sorted(named) == sorted(packages)


def test_the_quickstart_names_what_the_demo_writes():
    recipe = (ROOT / "Makefile").read_text("utf-8")
    written = set(re.findall(r"\$\(DEMO\)/(\w+\.html)", recipe))
    page = (ROOT / "docs" / "tutorial" / "quickstart.md").read_text("utf-8")
    assert written == set(re.findall(r"`build/demo/(\w+\.html)`", page)) != set()


def test_the_tables_hold_every_corruption(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    sys.modules.pop("generate", None)
    import generate

    page = generate.on_page_markdown(
        (ROOT / "docs" / "reference" / "corruptions.md").read_text("utf-8")
    )
    assert "<!--" not in page
    for name in all_entries():
        assert page.count(f"### `{name}`\n") == 1, name
    assert "| `sigma` |" in page
    suites = generate.on_page_markdown(
        (ROOT / "docs" / "reference" / "suites.md").read_text("utf-8")
    )
    assert "`saturate`" in suites.split("not for these")[1]
    settings = generate.on_page_markdown(
        (ROOT / "docs" / "how-to" / "evaluate.md").read_text("utf-8")
    )
    assert "| `--n-bootstrap` | `n_bootstrap` |" in settings and "<!--" not in settings


def test_a_table_describes_every_network_that_can_be_trained_by_name(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    sys.modules.pop("generate", None)
    import generate

    page = generate.on_page_markdown((ROOT / "docs" / "how-to" / "train.md").read_text("utf-8"))
    assert "<!--" not in page
    for name in NETWORKS:
        assert re.search(rf"^\| `{name}` \| \w.*\.(?: |$)", page, re.M), name


def test_the_table_of_defenses_has_each_of_them_with_its_settings():
    page = (ROOT / "docs" / "how-to" / "defenses.md").read_text("utf-8")
    table = page[page.index("| `--defense` |") :].split("\n\n")[0]
    rows = {row.split("`")[1]: row for row in table.splitlines()[2:]}
    assert list(rows) == list(DEFENSES)
    for name, row in rows.items():
        settings = {setting.name: f"{setting.usual:g}" for setting in DEFENSES[name].settings}
        assert dict(re.findall(r"`(\w+)=([\d.]+)`", row)) == settings


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def named_commands(page: Path) -> list[str]:
    """Commands that a page names without running them, each in one line."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    shown = [line.strip() for block in re.findall(r"^```text\n(.*?)^```", text, re.M | re.S)
             for line in block.splitlines()]  # fmt: skip
    inline = re.findall(r"`(eyechart [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return [" ".join(line.split()) for line in (*shown, *inline) if "eyechart " in line]


def check_command(line: str) -> None:
    """The subcommand and its options exist."""
    words = re.split(r"\s+(?:&&|;|\||>|#)\s|…", line[line.index("eyechart ") :])[0].split()[1:]
    command = COMMAND_LINE
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):
        assert not words or words[0].startswith(("-", "[")), line
        return
    known = {name for own in command.params for name in (*own.opts, *own.secondary_opts)}
    for word in words:
        option = word.strip("[],.()").partition("=")[0]
        if re.fullmatch(r"--[a-z][a-z0-9-]*", option):
            assert option in {*known, "--help", "--help-all"}, f"{option} in: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_named_exist_with_their_options(page):
    for line in named_commands(page):
        check_command(line)


def test_many_commands_are_named():
    assert sum(len(named_commands(page)) for page in PAGES) > 80


def plain_text(page: Path) -> str:
    """The words of a page in one line, without emphasis."""
    return " ".join(page.read_text("utf-8").replace("**", "").split())


def test_that_human_consistency_compares_participants_is_called_an_inference():
    (point,) = re.findall(
        r"- Consistency\. .*?(?= - |$)", plain_text(ROOT / "docs" / "concepts" / "humans.md")
    )
    sentences = [text for text in point.split(". ") if "different participants" in text]
    assert len(sentences) == 1
    assert "is inferred, not stated in the VCR paper" in sentences[0]


SAME_PIXELS = ("at most 0.1 % of values may differ, by one gray level",)
"""What is promised of pixels, on one type of device and across them."""


@pytest.mark.parametrize("name", ["README.md", "docs/concepts/reproducibility.md"])
def test_pages_promise_the_same_of_pixels(name):
    text = plain_text(ROOT / name)
    for published_accuracy in SAME_PIXELS:
        assert text.count(published_accuracy) == 1, published_accuracy
    assert re.findall(r"([\d.]+) % of (?:the )?values", text) == ["0.1"]
    same = "The same image, corruption, strength and seed (?:always )?give the same pixels"
    assert len(re.findall(same, text)) == 1
    one_type = (
        "give the same pixels on one type of device|On one type of device, pixels are identical"
    )
    assert len(re.findall(one_type, text)) == 1


def cited_papers() -> dict[str, tuple[list[str], str]]:
    """Surnames and year of the BibTeX entries in the documentation, by title in lower case."""
    papers = {}
    for entry in re.findall(
        r"^@\w+\{.*?^\}",
        "".join(blocks(ROOT / "docs" / "research" / "papers.md", "bibtex")),
        re.M | re.S,
    ):
        fields = dict(re.findall(r"^ *(\w+) *= \{(.*)\},?$", entry, re.M))
        surnames = [author.split(",")[0] for author in fields["author"].split(" and ")]
        papers[fields["title"].lower()] = surnames, fields["year"]
    return papers


def papers_in_citation_file() -> dict[str, tuple[list[str], str]]:
    """The same of the papers that CITATION.cff refers to."""
    content = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    return {
        paper["title"].lower(): (
            [author["family-names"] for author in paper["authors"]],
            str(paper["year"]),
        )
        for paper in content["references"]
    }


OWN_SUITES = ("geometry",)
"""Suites that come from no paper."""


def test_the_citation_file_has_every_paper_of_the_documentation():
    in_file, in_docs = papers_in_citation_file(), cited_papers()
    assert in_file.keys() == in_docs.keys()
    for title, (surnames, year) in in_docs.items():
        assert ([name.replace('{\\"u}', "ü") for name in surnames], year) == in_file[title]
    assert "generalisation in humans and deep neural networks" in in_file


@pytest.mark.parametrize("suite", [name for name in PUBLISHED if name not in OWN_SUITES])
@pytest.mark.parametrize("papers", [cited_papers, papers_in_citation_file])
def test_the_paper_of_each_suite_is_cited_with_its_authors(suite, papers):
    authors, title, rest = load_suite(suite).source.split(". ", maxsplit=2)
    (year,) = re.findall(r"\b20\d\d\b", rest)
    assert papers()[title.lower()] == (authors.split(", "), year)
