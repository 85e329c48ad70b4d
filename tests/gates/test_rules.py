"""Rule files: what they say, and one sentence with line and key where they are wrong."""

import re
from pathlib import Path

import pytest

from eyechart.core.errors import UsageError
from eyechart.core.yaml_text import parse_yaml_lines
from eyechart.gates.rules import KEYS, Rule, load_rules
from places import TESTS

PAGE = TESTS.parent / "docs" / "how-to" / "gate.md"

GOOD = """\
intended_conditions: >-
  A camera outdoors,
  by day.
rules:
  - name: weather
    families: [weather]
    delta_v: [0, 0.5]
    at_least: 0.6
  - name: nothing lost
    corruptions: all
    severity: 3
    classes: [7, cat]
    where: {night: true, site: [a, b]}
    metric: consistency
    labels: entry16
    model: new
    old_model: old
    no_worse_than_old: {margin: 0.01}
"""


def test_a_file_is_read_with_the_lines_of_its_keys(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text(GOOD)
    (first, second), intended = load_rules(path)
    assert intended == "A camera outdoors, by day."
    assert first == Rule(
        name="weather",
        families=("weather",),
        delta_v=(0, 0.5),
        at_least=0.6,
        file=str(path),
        lines={"": 5, "name": 5, "families": 6, "delta_v": 7, "at_least": 8},
    )
    assert second.corruptions == () and second.severity == (3, 3)
    assert second.classes == ("7", "cat")
    assert second.where == {"night": ("true",), "site": ("a", "b")}
    assert (second.metric, second.labels) == ("consistency", "entry16")
    assert (second.margin, second.limit, second.old_model) == (0.01, -0.01, "old")


def test_a_list_alone_is_enough_also_in_python(tmp_path):
    rule = {"name": "a", "corruptions": "fog", "at_least": 0.5}
    (tmp_path / "gate.yaml").write_text("- {name: a, corruptions: fog, at_least: 0.5}")
    (in_file,), _ = load_rules(tmp_path / "gate.yaml")
    (in_python,), _ = load_rules([rule])
    assert in_python.corruptions == in_file.corruptions == ("fog",)
    assert in_python.file == ""


BASE = "- name: a\n  corruptions: all\n"

WRONG = {
    "an unknown key": (
        f"{BASE}  at_lest: 0.5",
        3,
        "Unknown key 'at_lest'. Did you mean 'at_least'",
    ),
    "no requirement": (BASE, 1, "at_least or no_worse_than_old is missing"),
    "two requirements": (
        f"{BASE}  at_least: 0.5\n  no_worse_than_old: {{margin: 0.1}}",
        1,
        "give at_least or no_worse_than_old, not both",
    ),
    "no corruptions": ("- name: a\n  at_least: 0.5", 1, "corruptions or families is missing"),
    "both ways": (f"{BASE}  families: noise\n  at_least: 0.5", 1, "corruptions or families, not"),
    "a text": (f"{BASE}  at_least: high", 3, "at_least must be a number, got 'high'"),
    "beyond 1": (f"{BASE}  at_least: 60", 3, "at_least must be in [0, 1], got 60"),
    "NaN": (f"{BASE}  at_least: .nan", 3, "at_least must be in [0, 1]"),
    "a backward range": (f"{BASE}  delta_v: [0.5, 0.1]\n  at_least: 0.5", 3, "delta_v must be"),
    "half a range": (f"{BASE}  delta_v: [0.5]\n  at_least: 0.5", 3, "delta_v must be a range"),
    "a severity of 9": (f"{BASE}  severity: 9\n  at_least: 0.5", 3, "severity must be in [0, 5]"),
    "a bare margin": (f"{BASE}  no_worse_than_old: 0.1", 3, "must be {margin: NUMBER}, got 0.1"),
    "no margin": (f"{BASE}  no_worse_than_old:\n    margin: 0", 3, "no_worse_than_old.margin must"),
    "a metric": (f"{BASE}  metric: f1\n  at_least: 0.5", 3, "metric must be accuracy or consist"),
    "labels": (f"{BASE}  labels: x\n  at_least: 0.5", 3, "labels must be native or entry16"),
    "a list as where": (f"{BASE}  where: [a]\n  at_least: 0.5", 3, "where must be a mapping"),
    "no classes": (f"{BASE}  classes: []\n  at_least: 0.5", 3, "classes must not be empty"),
    "no name": ("- corruptions: all\n  at_least: 0.5", 1, "name is missing"),
    "a number as name": ("- name: 3\n  corruptions: all", 1, "name must be a string, got 3"),
    "a blank name": ("- name: ' '\n  corruptions: all", 1, "name must not be empty"),
    "a second name": (f"{BASE}  at_least: 0.5\n{BASE}  at_least: 0.5", 4, "different names"),
    "a model of nothing": (
        f"{BASE}  old_model: x\n  at_least: 0.5",
        1,
        "old_model needs no_worse_than_old",
    ),
    "a word as rule": ("- weather", 1, "a rule must be a mapping of keys"),
    "no list": ("rules: weather", 1, "rules must be a list with at least one rule"),
    "nothing": ("", 1, "rules must be a list with at least one rule"),
    "a wrong top": ("rule: []", 1, "Unknown key 'rule'. Did you mean 'rules'"),
    "a key twice": (f"{BASE}  corruptions: all", 3, "corruptions is already given in line 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_is_one_sentence_with_line_and_key(case, tmp_path):
    text, line, sentence = WRONG[case]
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load_rules(path)
    message = str(error.value)
    assert message.startswith(str(path)) and f"line {line}" in message
    assert sentence in message
    assert message.endswith((".", "?")) and "\n" not in message


@pytest.mark.parametrize("text", ["a: [", "a: &a [*a]", "\x00", "[" * 200])
def test_what_is_not_yaml_is_one_sentence(text, tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load_rules(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize("rules", [3, None, [], [3], {"rules": "x"}, [{"name": "a"}], b"x"])
def test_nonsense_in_python_is_one_sentence(rules):
    with pytest.raises(UsageError):
        load_rules(rules)


def test_missing_and_binary_files_are_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_rules(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a text file"):
        load_rules(tmp_path / "binary.yaml")


def yaml_blocks(page: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def test_the_rule_files_of_the_documentation_are_valid(tmp_path):
    blocks = yaml_blocks(PAGE)
    assert blocks
    for block in blocks:
        (tmp_path / "gate.yaml").write_text(block)
        assert load_rules(tmp_path / "gate.yaml")[0]


def test_the_documentation_has_every_key():
    table = PAGE.read_text("utf-8").split("| key |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == list(KEYS)


def test_the_lines_of_merged_and_nested_values_are_known():
    text = "a: &x\n  b: 1\nc:\n  <<: *x\n  d:\n  - e\n  - f: 2\n"
    values, lines = parse_yaml_lines(text)
    assert values["c"] == {"b": 1, "d": ["e", {"f": 2}]}
    assert lines["c", "d", 1, "f"] == 7 and lines["c",] == 3
