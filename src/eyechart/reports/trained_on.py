"""Marks beside scores under corruptions that a model was trained on, and beside means over them."""

from collections.abc import Iterable

from eyechart.pipeline.caveats import MARK, MEANING
from eyechart.reports.terminal.model_index import averaged
from eyechart.results.runs import Run
from eyechart.results.schema import ModelResults

NOTE = f"{MARK} {MEANING}."
"""Below a table that has marks."""


def is_mean_marked(run: Run, model: ModelResults, space: str, score: str) -> bool:
    """Whether an overall score is the mean over a corruption that the model was trained on."""
    if not model.marked or space not in model.spaces:
        return False
    return not set(model.marked).isdisjoint(averaged(run, model.spaces[space], score))


def note_on(models: Iterable[ModelResults]) -> str:
    """Return what the mark means if one of the models has any, else ""."""
    return NOTE if any(model.marked for model in models) else ""
