"""Plain values read into records: what is there, what is missing, what is of another type."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.core.plain import from_plain


@dataclass(frozen=True)
class Inner:
    ends: tuple[float, float]
    name: str | None


@dataclass(frozen=True)
class Outer:
    count: int
    on: bool
    share: float
    inner: Inner | None
    many: tuple[Inner, ...]
    by_name: Mapping[str, Inner]


numbers = st.floats(allow_nan=False)
inners = st.builds(Inner, st.tuples(numbers, numbers), st.none() | st.text())
outers = st.builds(
    Outer, st.integers(), st.booleans(), numbers, st.none() | inners,
    st.lists(inners).map(tuple), st.dictionaries(st.text(), inners),
)  # fmt: skip
GOOD = asdict(Outer(3, True, 0.5, None, (Inner((0.0, 1.0), "a"),), {}))


@given(outers)
def test_records_come_back_from_their_plain_values(record):
    assert from_plain(Outer, asdict(record)) == record


def test_whole_numbers_are_numbers_and_what_is_not_known_is_left():
    assert from_plain(Outer, GOOD | {"share": 1, "more": "x"}).share == 1.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"count": 1.5}, "Outer.count is not of type int"),
        ({"count": True}, "Outer.count is not of type int"),
        ({"share": None}, "Outer.share is not of type float"),
        ({"inner": []}, "Outer.inner is not a mapping"),
        ({"inner": {"ends": [0, 1]}}, "Outer.inner.name is missing"),
        ({"inner": {"ends": [0, 1, 2], "name": None}}, "has 3 elements, not 2"),
        ({"many": {}}, "Outer.many is not a list"),
        ({"by_name": []}, "Outer.by_name is not a mapping"),
        ({"by_name": {"x": {"ends": ["0", 1], "name": ""}}}, "Outer.by_name.x.ends"),
    ],
)
def test_what_does_not_fit_is_named(change, says):
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        from_plain(Outer, GOOD | change)


def test_what_is_no_mapping_at_all_is_refused():
    with pytest.raises(ValueError, match="Outer is not a mapping"):
        from_plain(Outer, [])
