"""YAML files of users: what is nested or repeated beyond any use is one sentence, everywhere."""

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import small_models
from commands import assert_rejected
from eyechart.core.yaml_text import MAX_DEPTH, parse_yaml

DEEP = "[" * 5000 + "]" * 5000
DEEP_MAPPING = "".join(f"{' ' * place}a:\n" for place in range(3000)) + " " * 3000 + "b"
# each line stands for ten times as many values as the one before: 10^9 in the end
REPEATED = "a0: &a0 x\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
TEXTS = {"nested": DEEP, "nested mappings": DEEP_MAPPING, "repeated": REPEATED}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_plain_values_are_read_as_they_were_written(value):
    assert parse_yaml(yaml.safe_dump(value)) == value
    # not the value itself: PyYAML writes some line separators so that it reads them as spaces
    text = yaml.safe_dump(value, allow_unicode=True)
    assert parse_yaml(text) == yaml.safe_load(text)


def test_aliases_are_the_values_they_stand_for():
    assert parse_yaml("a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}}") == {
        "a": [1, 2], "b": [1, 2], "c": {"d": 1},
    }  # fmt: skip


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1])
def test_nesting_has_a_bound(levels):
    text = "[" * (levels - 1) + "1" + "]" * (levels - 1)
    if levels <= MAX_DEPTH:
        assert parse_yaml(text) == yaml.safe_load(text)
        return
    with pytest.raises(ValueError, match="nested more than 50 levels deep"):
        parse_yaml(text)


def test_control_characters_are_no_yaml():
    with pytest.raises(ValueError, match="not allowed") as error:
        parse_yaml("a: \x00")
    assert "\n" not in str(error.value) and not isinstance(error.value, yaml.YAMLError)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_stands_for_too_much_is_rejected_at_once(text):
    start = time.perf_counter()
    with pytest.raises(ValueError, match=r"levels deep|expand to more than") as error:
        parse_yaml(text)
    assert time.perf_counter() - start < 5 and "\n" not in str(error.value)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_command_that_reads_yaml_says_so_in_one_sentence(run, tmp_path, text):
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    images = small_models.save_images(tmp_path / "images", each=1)
    words = "expand to more" if text is REPEATED else "levels deep"
    for command in (
        ("list", "corruptions", "--suite", path),
        ("evaluate", "small_models:colors", "--images", images, "--suite", path),
        ("evaluate", path, "--images", images),
    ):
        assert_rejected(run(*command), words)
