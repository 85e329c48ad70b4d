"""The pytest plugin: the fixture `robustness` in test files of users, run by pytest itself."""

import subprocess
import sys

import pytest

# Here, since pytester forgets the modules that a run imports, and SciPy cannot be imported twice.
import eyechart.gates.gate
import eyechart.pipeline.evaluate  # noqa: F401
from small_models import save_images

pytest_plugins = ["pytester"]

MODEL = """
from pathlib import Path
import torch
from torch import nn

class Colors(nn.Module):
    def __init__(self, threshold=0.08):
        super().__init__()
        self.register_buffer("threshold", torch.tensor(threshold))
        self.gain = 20.0

    def forward(self, images):
        with Path("calls.txt").open("a") as file:
            file.write("x" * len(images))
        red, green, blue = images.mean(dim=(2, 3)).unbind(1)
        level = (red + green + blue) / 3
        scores = (blue - level, green - level, self.threshold * level + 0.01, red - level)
        return self.gain * torch.stack(scores, dim=1)
"""

SMALL = (
    'n=48, corruptions=["brightness"], stimulus="native", bins=3, min_per_bin=2, n_bootstrap=10,'
    ' humans="none"'
)

TEST = f"""
from colors import Colors

def test_robust(robustness):
    robustness(Colors(), "images", {SMALL}).gate("gate.yaml")
"""


def rules(limit: float) -> str:
    return f"- name: light\n  corruptions: [brightness]\n  at_least: {limit}\n"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("plugin") / "images", each=11)


@pytest.fixture
def project(pytester, images):
    """A project of a user: a model, images, rules that it passes, and a test."""
    (pytester.path / "images").symlink_to(images)
    pytester.makepyfile(colors=MODEL, test_model=TEST)
    (pytester.path / "gate.yaml").write_text(rules(0.3))
    return pytester


def run(project, *options: str):
    # by its name, because an environment may be older than the entry point
    plugin = ("-p", "no:eyechart", "-p", "eyechart.integrations.pytest_plugin")
    return project.runpytest_inprocess(*plugin, *options)


def n_predicted(project) -> int:
    """The number of images that the model was called with since the last time this was asked."""
    calls = project.path / "calls.txt"
    number = len(calls.read_text()) if calls.exists() else 0
    calls.unlink(missing_ok=True)
    return number


def test_a_passing_gate_passes_and_each_call_evaluates_the_model(project):
    for _ in range(2):
        run(project).assert_outcomes(passed=1)
        assert n_predicted(project) > 48


def test_a_run_in_a_folder_is_resumed_unless_the_model_has_changed(project):
    project.makepyfile(test_model=TEST.replace("n=48", 'n=48, out="run"'))
    run(project).assert_outcomes(passed=1)
    n_first = n_predicted(project)
    run(project).assert_outcomes(passed=1)
    assert n_predicted(project) < n_first
    project.makepyfile(
        test_model=TEST.replace("n=48", 'n=48, out="run"').replace("Colors()", "Colors(0.2)")
    )
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*run*different*choose another --out*"])


def test_a_failing_gate_fails_the_test_with_its_table_in_the_message(project):
    # calls every image gray, which is correct for one in four
    project.makepyfile(test_model=TEST.replace("Colors()", "Colors(5.0)"))
    (project.path / "gate.yaml").write_text(rules(0.9))
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ['The gate fails: "light".', "*samples*estimate*bound*required*", "*≥ 0.9*fail*"]
    )
    assert "Traceback" not in result.stdout.str() and "def test_robust" not in result.stdout.str()


def test_an_inconclusive_gate_fails_unless_the_test_says_otherwise(project):
    # all 48 samples are correct, but 44 images cannot show this much
    (project.path / "gate.yaml").write_text(rules(0.95))
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["The gate is inconclusive, which counts as fail: *", "light: *"])
    project.makepyfile(test_model=TEST.replace('"gate.yaml"', '"gate.yaml", inconclusive="pass"'))
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('"gate.yaml"', '"none.yaml"', "none.yaml"),
        ('"images"', '"nowhere"', "nowhere"),
        ("n=48", "m=24", "Unknown argument 'm'"),
        ("n=48", "n=48, dry_run=True", "use eyechart evaluate --dry-run"),
        ("n=48", "n=48, fail_under=['r_a=1']", "r_a"),
        ('"gate.yaml"', '[{"name": "light", "corruption": "fog"}]', "corruption"),
    ],
)
def test_bad_input_fails_the_test_with_one_sentence(project, before, after, sentence):
    project.makepyfile(test_model=TEST.replace(before, after, 1))
    result = run(project, "--tb=short")
    result.assert_outcomes(failed=1)
    lines = result.stdout.lines
    start = next(place for place, line in enumerate(lines) if "test_robust ___" in line)
    message = lines[start + 1]
    assert sentence in message and message.endswith((".", "?"))
    assert lines[start + 2].startswith(("===", "---"))


def test_a_new_model_is_compared_with_an_old_one(project):
    (project.path / "gate.yaml").write_text(
        "- name: same\n  corruptions: all\n  no_worse_than_old: {margin: 0.3}\n"
    )
    project.makepyfile(
        test_model=f"""
from colors import Colors

def test_new(robustness):
    new, old = (robustness(Colors(t), "images", {SMALL}) for t in (0.08, 0.09))
    outcome = new.gate("gate.yaml", against=old)
    assert outcome.rules[0].old_model == "Colors" and len(new.results.models) == 1
"""
    )
    run(project).assert_outcomes(passed=1)


def test_tests_with_the_fixture_are_slow_and_can_be_deselected(project):
    project.makepyfile(test_other="def test_fast():\n    pass\n")
    run(project, "-m", "not slow", "--strict-markers").assert_outcomes(passed=1, deselected=1)
    assert n_predicted(project) == 0
    run(project, "--markers").stdout.fnmatch_lines(["@pytest.mark.slow: *robustness*"])
    run(project, "--fixtures").stdout.fnmatch_lines(["robustness*", "*Evaluate a model under*"])


def test_a_project_keeps_its_own_marker(project):
    project.makeini("[pytest]\nmarkers = slow: ours\n")
    text = run(project, "--markers").stdout.str()
    assert "@pytest.mark.slow: ours" in text and "robustness" not in text


def test_the_plugin_imports_nothing_slow():
    code = (
        "import eyechart.integrations.pytest_plugin, sys;"
        "print(*{'torch', 'numpy', 'pydantic', 'scipy', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
