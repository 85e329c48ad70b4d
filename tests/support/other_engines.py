"""An engine that does the same work otherwise."""

from eyechart.predictions.engine import part_files
from eyechart.predictions.loop import predict_items


class Backwards:
    """Does one item after the other, the last one first."""

    def run(self, work, advance, resources):
        for item in reversed(work.items):
            predict_items(work.task, [item], part_files(work.task, work.folder), advance)


OTHERS = {"backwards": Backwards()}
