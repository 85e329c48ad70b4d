"""Working on parts of a batch at the same time, and leaving no traces."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from eyechart.core.parallel import _pool, map_on_threads, on_all_cores, one_blas_thread


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    _pool.cache_clear()
    yield
    torch.set_num_threads(before)


def in_a_fresh_thread() -> int:
    """How many threads torch would use in a thread that starts now."""
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return counts[0]


@pytest.mark.parametrize("parts", [0, 1, 2, 7, 40])
def test_every_part_is_worked_on_once(two_threads: None, parts: int) -> None:
    done: list[int] = []
    on_all_cores(done.append, range(parts))
    assert sorted(done) == list(range(parts))


def test_two_parts_are_worked_on_at_the_same_time(two_threads: None) -> None:
    # each part waits for the other: one after the other they would wait in vain
    meeting = threading.Barrier(2, timeout=20)
    on_all_cores(lambda _: meeting.wait(), range(2))
    assert not meeting.broken


def test_inside_a_part_torch_uses_one_thread(two_threads: None) -> None:
    counts: list[int] = []
    on_all_cores(lambda _: counts.append(torch.get_num_threads()), range(8))
    assert counts == [1] * 8


def test_a_single_part_uses_all_threads_unless_it_must_equal_one_of_several(
    two_threads: None,
) -> None:
    counts: list[int] = []
    on_all_cores(lambda _: counts.append(torch.get_num_threads()), [0])
    on_all_cores(lambda _: counts.append(torch.get_num_threads()), [0], one_thread_each=True)
    assert counts == [2, 1]


def test_a_part_that_fails_is_not_passed_over(two_threads: None) -> None:
    def fail(part: int) -> None:
        if part == 3:
            raise ValueError("part 3")

    with pytest.raises(ValueError, match="part 3"):
        on_all_cores(fail, range(6))


def test_the_number_of_torch_threads_is_left_as_it_was(two_threads: None) -> None:
    meeting = threading.Barrier(2, timeout=20)
    on_all_cores(lambda _: meeting.wait(), range(2))
    assert torch.get_num_threads() == 2
    assert in_a_fresh_thread() == 2


def test_results_come_in_the_order_of_the_parts() -> None:
    # the first part is finished last
    second_is_done = threading.Event()

    def work(part: int) -> int:
        if part == 0:
            assert second_is_done.wait(20)
        elif part == 1:
            second_is_done.set()
        return part * part

    assert list(map_on_threads(work, range(5), 3)) == [0, 1, 4, 9, 16]


def test_threads_of_another_number_leave_torch_as_it_was(two_threads: None) -> None:
    counts = list(map_on_threads(lambda _: torch.get_num_threads(), range(8), 3))
    assert counts == [1] * 8
    assert torch.get_num_threads() == 2


def blas_threads() -> list[int]:
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_matrix_products_use_one_thread_and_then_as_many_as_before() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == [1] * len(before)
    assert before and blas_threads() == before
