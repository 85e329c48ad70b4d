"""The pytest plugin: the fixture `robustness` in test files of users, run by pytest itself."""

import subprocess
import sys

import pytest

from eyechart.integrations import kept_runs
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


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of pytest that tests share, so that each model is evaluated once."""
    return tmp_path_factory.mktemp("plugin") / "cache"


@pytest.fixture
def project(pytester, images):
    """A project of a user: a model, images, rules that it passes, and a test."""
    (pytester.path / "images").symlink_to(images)
    pytester.makepyfile(colors=MODEL, test_model=TEST)
    (pytester.path / "gate.yaml").write_text(rules(0.3))
    return pytester


def run(project, cache, *options: str):
    return run_plain(project, "-o", f"cache_dir={cache}", *options)


def run_plain(project, *options: str):
    # by its name, because an environment may be older than the entry point
    plugin = ("-p", "no:eyechart", "-p", "eyechart.integrations.pytest_plugin")
    return project.runpytest_inprocess(*plugin, *options)


def n_predicted(project) -> int:
    """The number of images that the model was called with since the last time this was asked."""
    calls = project.path / "calls.txt"
    number = len(calls.read_text()) if calls.exists() else 0
    calls.unlink(missing_ok=True)
    return number


def test_a_passing_gate_passes_and_an_unchanged_model_is_not_called_again(project):
    cache = ".pytest_cache"
    run(project, cache).assert_outcomes(passed=1)
    assert n_predicted(project) > 48
    kept = list((project.path / ".pytest_cache" / "d" / "eyechart").iterdir())
    assert [folder.name.partition("-")[0] for folder in kept] == ["Colors"]
    run(project, cache).assert_outcomes(passed=1)
    assert n_predicted(project) == 0
    run(project, cache, "--cache-clear").assert_outcomes(passed=1)
    assert n_predicted(project) > 48


def test_a_changed_model_dataset_or_option_is_evaluated_anew(project, cache, images):
    run(project, cache).assert_outcomes(passed=1)
    n_predicted(project)
    other = project.path / "images2"
    for path in sorted(images.rglob("*.png"))[1:]:
        target = other / path.relative_to(images)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    changed_gain = "model = Colors(); model.gain = 21.0; robustness(model"
    changes = {
        "weights": {"test_model": TEST.replace("Colors()", "Colors(0.081)")},
        "attribute": {"test_model": TEST.replace("robustness(Colors()", changed_gain)},
        "options": {"test_model": TEST.replace("n=48", "n=49")},
        "data": {"test_model": TEST},
        "code": {"colors": MODEL.replace("0.01", "0.011")},
    }
    numbers = {}
    for change, files in changes.items():
        project.makepyfile(**files)
        if change == "data":
            (project.path / "images").unlink()
            other.rename(project.path / "images")
        run(project, cache).assert_outcomes(passed=1)
        numbers[change] = n_predicted(project) > 48
    assert numbers == dict.fromkeys(changes, True)


def test_a_failing_gate_fails_the_test_with_its_table_in_the_message(project, cache):
    # calls every image gray, which is correct for one in four
    project.makepyfile(test_model=TEST.replace("Colors()", "Colors(5.0)"))
    (project.path / "gate.yaml").write_text(rules(0.9))
    result = run(project, cache)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ['The gate fails: "light".', "*samples*estimate*bound*required*", "*≥ 0.9*fail*"]
    )
    assert "Traceback" not in result.stdout.str() and "def test_robust" not in result.stdout.str()


def test_an_inconclusive_gate_fails_unless_the_test_says_otherwise(project, cache):
    # all 48 samples are correct, but 44 images cannot show this much
    (project.path / "gate.yaml").write_text(rules(0.95))
    result = run(project, cache)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["The gate is inconclusive, which counts as fail: *", "light: *"])
    project.makepyfile(test_model=TEST.replace('"gate.yaml"', '"gate.yaml", inconclusive="pass"'))
    n_predicted(project)
    run(project, cache).assert_outcomes(passed=1)
    assert n_predicted(project) == 0


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('"gate.yaml"', '"none.yaml"', "none.yaml"),
        ('"images"', '"nowhere"', "nowhere"),
        ("n=48", "m=24", "Unknown argument 'm'"),
        ("n=48", "n=48, out='here'", "out must be omitted"),
        ('"gate.yaml"', '[{"name": "light", "corruption": "fog"}]', "corruption"),
    ],
)
def test_bad_input_fails_the_test_with_one_sentence(project, cache, before, after, sentence):
    project.makepyfile(test_model=TEST.replace(before, after, 1))
    result = run(project, cache, "--tb=short")
    result.assert_outcomes(failed=1)
    lines = result.stdout.lines
    start = next(place for place, line in enumerate(lines) if "test_robust ___" in line)
    message = lines[start + 1]
    assert sentence in message and message.endswith((".", "?"))
    assert lines[start + 2].startswith(("===", "---"))


def test_a_function_is_evaluated_once_in_every_session(project):
    cache = ".pytest_cache"
    asked = f'robustness(predict, "images", {SMALL})'
    project.makepyfile(
        test_model=f"""
from colors import Colors

def predict(images):
    return Colors()(images)

def test_first(robustness):
    assert not {asked}.is_kept

def test_second(robustness):
    assert {asked}.is_kept
"""
    )
    for _ in range(2):
        run(project, cache).assert_outcomes(passed=2)
        assert n_predicted(project) > 48
    assert not list((project.path / ".pytest_cache" / "d" / "eyechart").iterdir())


def test_a_new_model_is_compared_with_an_old_one(project, cache):
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
    run(project, cache).assert_outcomes(passed=1)


def test_without_the_cache_of_pytest_nothing_is_kept(project, cache):
    run(project, cache).assert_outcomes(passed=1)
    n_predicted(project)
    result = run_plain(project, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert n_predicted(project) > 48 and not (project.path / ".pytest_cache").exists()


def test_tests_with_the_fixture_are_slow_and_can_be_deselected(project, cache):
    project.makepyfile(test_other="def test_fast():\n    pass\n")
    run(project, cache, "-m", "not slow", "--strict-markers").assert_outcomes(
        passed=1, deselected=1
    )
    assert n_predicted(project) == 0
    run(project, cache, "--markers").stdout.fnmatch_lines(["@pytest.mark.slow: *robustness*"])
    run(project, cache, "--fixtures").stdout.fnmatch_lines(
        ["robustness*", "*Evaluate a model under*"]
    )


def test_a_project_keeps_its_own_marker(project, cache):
    project.makeini("[pytest]\nmarkers = slow: ours\n")
    text = run(project, cache, "--markers").stdout.str()
    assert "@pytest.mark.slow: ours" in text and "robustness" not in text


def test_a_changed_tar_file_is_noticed_behind_braces(tmp_path):
    for number in range(2):
        (tmp_path / f"a-{number}.tar").write_bytes(bytes([number]))
    shards = str(tmp_path / "a-{0..1}.tar")
    before = kept_runs._describe(shards)
    assert kept_runs._describe(shards) == before and before.is_complete
    (tmp_path / "a-1.tar").write_bytes(b"other")
    assert kept_runs._describe(shards) != before


def test_changed_labels_beside_an_array_are_noticed(tmp_path):
    for name in ("x.npy", "labels.npy"):
        (tmp_path / name).write_bytes(b"one")
    before = kept_runs._describe(tmp_path / "x.npy")
    (tmp_path / "labels.npy").write_bytes(b"two")
    assert kept_runs._describe(tmp_path / "x.npy") != before


def test_a_dataset_of_the_hub_is_evaluated_in_every_session():
    assert not kept_runs._describe("hf:owner/name:test").is_complete


def test_the_plugin_imports_nothing_slow():
    code = (
        "import eyechart.integrations.pytest_plugin, sys;"
        "print(*{'torch', 'numpy', 'pydantic', 'scipy', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
