"""What one corruption does to which pictures: concrete parameters, one element per row."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.suites.suite import Entry

Whole = NDArray[np.int64]
Real = NDArray[np.float64]

CLEAN = "clean"
"""The name of the corruption that does nothing."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Rows of one corruption, or of none at all (`entry` is None: the pictures as they are).

    `row`: numbers that are unique in the test set. `image`: places in the image set. `draw`: how
    often the picture was drawn before for this corruption. `severity`: where strength came from
    one, else NaN. `values`: each parameter, in the entry's own units.
    """

    entry: Entry | None
    row: Whole
    image: Whole
    draw: Whole
    severity: Real
    values: Mapping[str, Real]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def name(self) -> str:
        """The corruption's name."""
        return CLEAN if self.entry is None else self.entry.name

    def take(self, places: Whole) -> "Draws":
        """Return some of the rows."""
        return Draws(
            self.entry,
            self.row[places],
            self.image[places],
            self.draw[places],
            self.severity[places],
            {name: values[places] for name, values in self.values.items()},
        )


def clean_draws(images: Whole, first: int) -> Draws:
    """Return one row for each of these pictures as it is."""
    count = len(images)
    nothing = np.full(count, np.nan)
    return Draws(None, first + np.arange(count), images, np.zeros_like(images), nothing, {})


def expand(counts: Whole) -> tuple[Whole, Whole]:
    """Return picture and number of the draw for each of so many draws per picture."""
    image = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return image, np.arange(len(image)) - np.repeat(starts, counts)
