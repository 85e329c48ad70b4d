"""Corrupt training images, each by a randomly drawn corruption and strength."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.corruptions.suites.apply import choose_entries, corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of, entry_mark
from eyechart.corruptions.suites.strength import (
    Strengths,
    check_severity,
    draw_severities,
    draw_strengths,
)
from eyechart.corruptions.suites.suite import STRONGEST, Entry
from eyechart.visual_change.measure import measure_change

LOOKED_AT = 48
"""Number of images on which visual change is measured to find strengths."""

KNOTS = STRONGEST * np.linspace(0, 1, 33) ** 3
"""Severities at which visual change is measured to find strengths; denser at low severities."""


@dataclass(frozen=True)
class Mixture:
    """The corruptions applied to training images; without entries, images stay clean.

    Each image is corrupted by one of the entries, drawn again each time the image is used. By
    default the strength is drawn as the suite defines (from its domain, or among its levels). If a
    range of `severity` is given, the severity is drawn uniformly from that range. If a range of
    `delta_v` is given, strengths are chosen such that, on average over images, visual change is
    uniform over that range, or over the part of the range that the corruption can reach. `tables`:
    mean visual change of each entry at severities 0 … 5; empty until they are measured.
    """

    entries: tuple[Entry, ...] = ()
    severity: tuple[float, float] | None = None
    delta_v: tuple[float, float] | None = None
    tables: tuple[tuple[float, ...], ...] = ()

    def check(self) -> None:
        """Raise a UsageError unless the mixture is valid."""
        if self.severity is not None and self.delta_v is not None:
            raise UsageError("Give a range of severity or a range of delta_v, not both.")
        if self.severity is not None:
            check_severity(np.array(self.severity))
            if not self.severity[0] <= self.severity[1]:
                raise UsageError(
                    f"severity must be a range LOW-HIGH, got {_words(self.severity)}: swap the two "
                    "numbers."
                )
        if self.delta_v is not None:
            low, high = self.delta_v
            if not 0 <= low <= high <= 1:
                raise UsageError(
                    f"delta_v must be a range within [0, 1], got {_words(self.delta_v)}."
                )
            moved = [entry.name for entry in self.entries if entry.geometric]
            if moved:
                raise UsageError(
                    f"{moved[0]} is geometric, so visual change is not defined for it: give a range"
                    " of severity instead of delta_v."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the corruptions."""
        return tuple(entry.name for entry in self.entries)

    def settings(self) -> dict[str, object]:
        """Return the mixture as plain values; `strengths` is a hash of the suites' definitions."""
        return {
            "corruptions": list(self.names),
            "severity": None if self.severity is None else list(self.severity),
            "delta_v": None if self.delta_v is None else list(self.delta_v),
            "strengths": f"{hash64(*map(entry_mark, self.entries)):016x}",
        }

    def measured(self, images: Tensor, keys: Tensor) -> "Mixture":
        """Return the mixture, with measured `tables` if a range of `delta_v` is given."""
        if self.delta_v is None:
            return self
        tables = (
            _changes(entry, images[:LOOKED_AT], keys[:LOOKED_AT], self.delta_v)
            for entry in self.entries
        )
        return replace(self, tables=tuple(tables))

    def corrupt(self, images: Tensor, keys: Tensor, seed: int, draw: int) -> Tensor:
        """Return the images, uint8 (B, 3, H, W), each corrupted by one of the entries.

        `keys`: (B,) int64, the key of each image. The same seed and draw give the same result.
        """
        if not self.entries or not len(images):
            return images
        entry_of_image = choose_entries(len(self.entries), keys, seed, draw)
        # With a single entry there is nothing to select, and no copy is needed.
        if len(self.entries) == 1:
            return self._by(0, images, keys, seed, draw)
        result = images.clone()
        for number in np.unique(entry_of_image):
            positions = torch.from_numpy(np.flatnonzero(entry_of_image == number)).to(images.device)
            result[positions] = self._by(
                int(number), images[positions], keys[positions], seed, draw
            )
        return result

    def _by(self, number: int, images: Tensor, keys: Tensor, seed: int, draw: int) -> Tensor:
        entry = self.entries[number]
        random = draw_random(entry, keys, seed, draw, images.device)
        strengths = self._strengths(number, random)
        return corrupt_batch(images, entry, strengths, random, assets_of(entry))

    def _strengths(self, number: int, random: ImageRandom) -> Strengths:
        if self.severity is not None:
            return Strengths(draw_severities(random, *self.severity))
        if self.delta_v is not None:
            changes = np.array(self.tables[number])
            low, high = self.delta_v
            # If a corruption does not reach the upper end of the range, it is spread over the part
            # that it reaches.
            wanted = low + (min(high, changes[-1]) - low) * random.scalar("visual change")
            return Strengths(np.interp(wanted, changes, KNOTS))
        return draw_strengths(self.entries[number], random)


def _changes(
    entry: Entry, images: Tensor, keys: Tensor, wanted: tuple[float, float]
) -> tuple[float, ...]:
    """Return the mean visual change at severities 0 … 5, made monotone."""
    means: list[float] = []
    # The same random numbers at all severities, so that only the strength changes.
    random = draw_random(entry, keys, 0, 0, images.device)
    for severity in KNOTS:
        strengths = Strengths(np.full(len(images), severity))
        corrupted = corrupt_batch(images, entry, strengths, random, assets_of(entry))
        # Visual change is undefined for images with too little information; they do not count.
        means.append(float(torch.as_tensor(measure_change(images, corrupted).delta_v).nanmean()))
    rising = np.maximum.accumulate(means)
    if not rising[-1] > wanted[0]:
        raise UsageError(
            f"{entry.name} reaches a visual change of at most {rising[-1]:.2f} on these images, so"
            f" delta_v cannot start at {wanted[0]:g}: give a lower range."
        )
    # Strictly increasing, so that np.interp can invert it.
    return tuple(rising + 1e-9 * np.arange(len(KNOTS)))


def _words(ends: Sequence[float]) -> str:
    return f"{ends[0]:g} to {ends[1]:g}"
