"""What a study exports is what its page says, and eyechart reads it without the experiment."""

import json
import re
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from experiment_studies import make_study
from eyechart.humans.human_responses import read_responses
from eyechart_experiment.export.study_export import export
from eyechart_experiment.study_config import choices_of
from filled_studies import Robot, attentive, fill, right_with
from places import EXPERIMENT

PAGE = EXPERIMENT / "docs" / "exported_files.md"
ALONE = """
import sys
from eyechart.cli.app import main

try:
    main(sys.argv[1:])
finally:
    print(sorted(name for name in sys.modules if name.startswith("eyechart_experiment")))
"""
"""Runs a command of eyechart, and prints which modules of the experiment it imported."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folders of the exports of a naming study and of a study of pairs."""
    folders = []
    for kind in ("categorise", "same-different"):
        folder = make_study(
            tmp_path_factory.mktemp("exported") / "study", kind=kind, qualification=4, catch=4,
            trials=24, practice=2, k=5, stimulus_ms=200,
        )  # fmt: skip
        fill(folder, [Robot(right_with(attentive, choices_of(folder.config)))] * 8)
        assert export(folder).kept
        folders.append(folder.path / "export")
    return folders


def section(heading):
    """The text below a heading of the page."""
    return PAGE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def first_cells(text):
    """What the tables of a text have in `…` in their first column."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_page_names_the_columns_and_metadata_of_the_responses(exported):
    schema = pq.read_schema(exported[0] / "responses.parquet")
    columns = re.findall(r"^\| `(\w+)` \| (\w+) \|", section("`responses.parquet`"), re.MULTILINE)
    assert columns == [(field.name, str(field.type)) for field in schema]
    text = section("`responses.parquet`")
    metadata = {key.decode(): value.decode() for key, value in schema.metadata.items()}
    keys = [name for name in first_cells(text) if name.startswith("eyechart.")]
    assert metadata.keys() == set(keys) - {"eyechart.simulated"}
    assert f"| `eyechart.kind` | `{metadata['eyechart.kind']}` |" in text
    assert f"| `eyechart.version` | `{metadata['eyechart.version']}`;" in text
    facts = json.loads(metadata["eyechart.facts"])
    assert {"source", "choices", "label_space", "flow"} <= facts.keys()
    assert all(f"`{name}`" in text for name in facts)


def test_the_page_names_the_columns_of_the_tables(exported):
    naming, pairs = exported
    (table, *_) = sorted((naming / "model-vs-human").iterdir())
    for heading, path in (
        ("`judgements.csv`", pairs / "judgements.csv"), ("`model-vs-human/*.csv`", table),
    ):  # fmt: skip
        header = path.read_text("utf-8").splitlines()[0].split(",")
        named = [name for name in re.findall(r"`([^`]+)`", section(heading)) if name in header]
        assert set(named) == set(header) and header


def alone(*arguments):
    """Run a command of eyechart in a process of its own; return what it printed before the list."""
    command = [sys.executable, "-c", ALONE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text, _, imported = done.stdout.rstrip("\n").rpartition("\n")
    assert imported == "[]"
    return text


def test_humans_import_reads_the_tables_of_a_study_without_the_experiment(exported, tmp_path):
    tables = sorted((exported[0] / "model-vs-human").iterdir())
    out = tmp_path / "humans.parquet"
    alone("humans", "import", *tables, "--format", "model-vs-human", "--out", out)
    imported, written = read_responses(out), read_responses(exported[0] / "responses.parquet")
    assert len(imported) == len(written) > 100
    for name in ("corruption", "subject", "image", "label", "response", "correct"):
        np.testing.assert_array_equal(getattr(imported, name), getattr(written, name))
    np.testing.assert_allclose(imported.delta_v, written.delta_v)
    assert (imported.choices, imported.label_space) == (16, "entry16")


def test_the_commands_read_the_other_files_without_the_experiment(exported):
    naming, pairs = exported
    assert "vcr/median_blur" in alone("humans", "list", naming / "responses.parquet")
    assert "vcr/gaussian_noise" in alone("humans", "similar", pairs)


def test_the_commands_of_the_experiment_are_imported_only_where_they_are_named():
    for arguments, is_imported in (
        (("list", "suites"), False), (("experiment", "--help"), True), (("--help",), True),
    ):  # fmt: skip
        command = [sys.executable, "-c", ALONE, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        imported = done.stdout.rstrip("\n").rpartition("\n")[2]
        assert ("eyechart_experiment.cli" in imported) == is_imported, arguments
