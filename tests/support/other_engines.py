"""An engine that does the same work otherwise."""

from eyechart.predictions.engine import part_files
from eyechart.predictions.loop import predict_items


class Backwards:
    """Does one item after the other, the last one first."""

    def run(self, task, items, folder, advance, settings):
        for item in reversed(items):
            predict_items(task, [item], part_files(task, folder).write, advance)


OTHERS = {"backwards": Backwards()}
