"""A registry: names taken once, near names suggested, things imported when they are asked for."""

import sys

import pytest

from eyechart.core.errors import UsageError
from eyechart.core.registry import Registry, near_names, one_of


def test_a_name_is_taken_once():
    registry = Registry("fruit")
    assert registry.add("apple", 1) == 1
    with pytest.raises(ValueError, match="fruit 'apple' is registered twice"):
        registry.add("apple", 2)
    with pytest.raises(ValueError, match="registered twice"):
        registry.add_lazily("apple", "fractions:Fraction")


def test_an_unknown_name_is_answered_with_a_near_one():
    registry = Registry("fruit")
    registry.add("apple", 1)
    with pytest.raises(UsageError, match=r"Unknown fruit 'aple'\. Did you mean 'apple'"):
        registry["aple"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("--sev", ["--severity"]),
        ("gauss", ["gaussian"]),
        ("frots", ["vcr/frost"]),
        ("imagenet-c/fog", ["fog"]),
        ("x/frost", ["vcr/frost"]),
        ("FOGG", ["fog"]),
        ("", []),
        ("rainbow trout", []),
    ],
)
def test_near_names_begin_or_end_alike_or_differ_by_few_letters(name, near):
    known = ["fog", "vcr/frost", "gaussian", "--seed", "--severity", "noc/rotate"]
    assert near_names(name, known) == near


def test_the_first_of_equally_near_names_counts():
    assert near_names("contrst", ["noc/contrast", "contrast"])[0] == "noc/contrast"
    assert near_names("contrst", ["contrast", "noc/contrast"])[0] == "contrast"


def test_what_is_added_lazily_is_imported_when_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "registered_later.py").write_text("PEAR = object()")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("fruit")
    registry.add_lazily("pear", "registered_later:PEAR")
    assert list(registry) == ["pear"] and "pear" in registry and len(registry) == 1
    assert "registered_later" not in sys.modules
    pear = registry["pear"]
    assert pear is sys.modules.pop("registered_later").PEAR
    # once: importing again would make another object
    assert registry["pear"] is pear and list(registry.values()) == [pear]


@pytest.mark.parametrize(
    "names, text", [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_names_are_listed_as_a_choice(names, text):
    assert one_of(names) == text
