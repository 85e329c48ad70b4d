"""A pickle that leaves a mark where it is trusted."""

from pathlib import Path


class Trap:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (Path(self.mark),))
