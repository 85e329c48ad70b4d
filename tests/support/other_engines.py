"""Engines that do the same work otherwise; in a module that another process can import."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from eyechart.predictions.engine import part_files
from eyechart.predictions.loop import predict_items


class Backwards:
    """Does one item after the other, the last one first."""

    def run(self, task, items, folder, advance):
        for item in reversed(items):
            predict_items(task, [item], part_files(task, folder), advance)


class TwoProcesses:
    """Every other item in a process of its own; task and items get there pickled."""

    def run(self, task, items, folder, advance):
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            parts = [
                pool.submit(do_items, pickle.dumps((task, items[writer::2], folder, writer)))
                for writer in range(2)
            ]
            for part in parts:
                advance(part.result(), "")


def do_items(pickled):
    """Do work items in another process and return how many samples that were."""
    task, items, folder, writer = pickle.loads(pickled)
    told = []
    advance = lambda count, message: told.append(count)  # noqa: E731
    predict_items(task, items, part_files(task, folder, writer), advance)
    return sum(told)


OTHERS = {"backwards": Backwards(), "two-processes": TwoProcesses()}
