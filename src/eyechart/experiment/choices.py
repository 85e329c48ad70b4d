"""The answers that participants choose between."""

from eyechart.experiment.config import StudyConfig

GRID = (
    "knife", "airplane", "keyboard", "elephant", "bicycle", "clock", "oven", "chair",
    "bear", "boat", "cat", "bottle", "truck", "car", "bird", "dog",
)  # fmt: skip
"""The 16 categories in the order of the answer grid, filled by column, as in the laboratory."""


def choices_of(config: StudyConfig) -> tuple[str, ...]:
    """Return the answers of a study."""
    return GRID if config.kind == "categorise" else ("same", "different")
