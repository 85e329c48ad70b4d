"""The notebooks of the documentation run, and store the outputs that their code gives."""

import re
import warnings

import nbformat
import pytest
from nbclient import NotebookClient

from places import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MAX_BYTES = 300_000


def run(notebook, folder):
    """Run all cells in a folder, in a new kernel; an error in a cell raises."""
    client = NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(folder)}}, record_timing=False
    )
    with warnings.catch_warnings():
        # what the Jupyter packages warn about each other is not an error of a notebook
        warnings.simplefilter("ignore")
        client.execute()


def shown(notebook):
    """The texts and the types of the outputs of each cell; numbers may differ between machines."""
    return [[describe(output) for output in cell.outputs]
            for cell in notebook.cells if cell.cell_type == "code"]  # fmt: skip


def describe(output):
    data = output.get("data", {})
    text = output.get("text", data.get("text/plain", ""))
    return sorted(data), " ".join(re.sub(r"-?\d[\d.]*", "#", text).split())


def test_there_are_four_notebooks():
    assert len(NOTEBOOKS) == 4


def marked(path):
    """The longer notebooks are executed by `make validate`, the shorter ones by `make test`."""
    is_long = path.stem in ("compare_two_models", "first_evaluation")
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if is_long else [])


@pytest.mark.parametrize("path", [marked(path) for path in NOTEBOOKS])
def test_a_notebook_runs_and_stores_its_outputs(path, tmp_path):
    stored = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    run(notebook, tmp_path)
    assert shown(stored) == shown(notebook), "run make notebooks"
    assert any(output for output in shown(stored))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_holds_nothing_of_a_machine(path):
    text = path.read_text("utf-8")
    assert len(text) < MAX_BYTES
    assert "/home/" not in text and str(ROOT) not in text
    assert '"stderr"' not in text and '"error"' not in text


def test_a_cell_that_raises_fails(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(notebook, tmp_path)
