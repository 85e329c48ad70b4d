"""Typed records: what is read is what is declared; what does not fit is named in one sentence."""

from collections.abc import Mapping
from math import isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PrivateAttr

from eyechart.core.errors import UsageError
from eyechart.core.records import NaNFloat, NullableFloat, Record


class Inner(Record):
    ends: tuple[float, float]
    name: str | None


class Outer(Record):
    count: int
    on: bool
    share: float
    inner: Inner | None
    many: tuple[Inner, ...]
    by_name: Mapping[str, Inner]


class Measured(Record):
    value: NaNFloat
    shown: NullableFloat

    _kept: list[int] = PrivateAttr(default_factory=list)


numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
inners = st.builds(Inner, ends=st.tuples(numbers, numbers), name=st.none() | texts)
outers = st.builds(
    Outer, count=st.integers(), on=st.booleans(), share=numbers, inner=st.none() | inners,
    many=st.lists(inners).map(tuple), by_name=st.dictionaries(texts, inners),
)  # fmt: skip
GOOD = Outer(
    count=3, on=True, share=0.5, inner=None, many=(Inner(ends=(0.0, 1.0), name="a"),), by_name={}
)


@given(outers)
def test_records_come_back_from_their_json(record):
    assert Outer.model_validate_json(record.model_dump_json(), strict=True) == record


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"count": 1.5}, "count: "),
        ({"share": None}, "share: "),
        ({"inner": []}, "inner: "),
        ({"inner": {"ends": [0, 1]}}, "inner.name: "),
        ({"inner": {"ends": [0, 1, 2], "name": None}}, "inner.ends: "),
        ({"many": {}}, "many: "),
        ({"by_name": []}, "by_name: "),
        ({"by_name": {"x": {"ends": ["z", 1], "name": ""}}}, "by_name.x.ends.0: "),
        ({"surplus": 1}, "surplus: "),
    ],
)
def test_what_does_not_fit_is_named(change, place):
    with pytest.raises(UsageError) as caught:
        Outer.from_plain(GOOD.model_dump() | change, "this file")
    assert str(caught.value).startswith(f"this file: {place}")
    assert "\n" not in str(caught.value)


def test_what_is_no_mapping_at_all_is_rejected():
    with pytest.raises(UsageError, match="Outer: "):
        Outer.from_plain([])


def test_undetermined_numbers_are_null_in_json_and_come_back():
    record = Measured(value=nan, shown=nan)
    assert record.shown is None
    assert record.model_dump_json() == '{"value":null,"shown":null}'
    assert isnan(Measured.model_validate_json('{"value":null,"shown":null}').value)


def test_what_is_kept_privately_is_no_part_of_a_record():
    first, second = Measured(value=1, shown=2), Measured(value=1, shown=2)
    first._kept.append(3)
    assert first == second
    assert first.model_copy()._kept == [3]
