"""Score the predictions in a file that another tool wrote, by the procedure of `evaluate`.

The file has the columns of the VCR study's code and one row per corrupted image: `orig_pred` (the
prediction for the clean image), `transf_pred` (for the corrupted one), `label`, `vd_score` (Δv).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.humans.combined import References
from eyechart.humans.human_fit import category_mix
from eyechart.humans.human_responses import HumanResponses
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.humans.importing import import_responses
from eyechart.humans.reference import METRICS
from eyechart.humans.reference_caveats import mix_note
from eyechart.images.labels.spaces import ENTRY16
from eyechart.pipeline.human_references import find_references
from eyechart.pipeline.scoring.corruption_scores import (
    CorruptionScorer,
    correct_for_number,
    without_claim,
)
from eyechart.pipeline.scoring.score_space import mean_scores
from eyechart.predictions.reading import Predictions
from eyechart.results.model_results import SpaceResults
from eyechart.scores.scoring import NO_REFERENCE, Fit, estimate_mean, insufficient_data

NATIVE = "native"
OTHER_LABELS = "humans responded in the 16 categories, and the labels of this file are others"


def score_result_files(
    files: Sequence[Path],
    comparison: ComparisonSettings,
    fit: Fit,
    corruption: str | None = None,
    choices: int | None = None,
) -> tuple[SpaceResults, tuple[str, ...]]:
    """Return the scores of predictions in files, and notes that limit what they say.

    They are compared with humans if the labels are the 16 categories.

    As in the VCR study, all samples count alike, whatever the shares of categories.

    Args:
        files: The files of one model.
        comparison: The human references.
        fit: How curves are fitted.
        corruption: The corruption, if the files do not name it.
        choices: The number of classes that the model chose from; None for the 16 categories.
    """
    if fit.right_anchor == "measured":
        raise UsageError(
            "--right-anchor measured needs predictions for destroyed images, which these files do"
            " not have: give none, chance or a number."
        )
    # The columns are those of human data in the same format.
    rows = import_responses(files, "vcr", corruption=corruption, choices=choices)
    _check_predictions(rows, files)
    space = ENTRY16 if rows.label_space == ENTRY16 else NATIVE
    humans: tuple[References | None, str] = (None, OTHER_LABELS)
    if space == ENTRY16:
        humans = find_references(comparison, space)
    predictions = _predictions(rows)
    by_corruption = {
        name: CorruptionScorer(
            corruption=name,
            fit=fit,
            geometric=False,
            why_no_curve="",
            classes=rows.choices,
            labeled=True,
            reference=humans[0],
            why_no_reference=humans[1],
        ).score(predictions.select(rows.corruption == name))
        for name in rows.experiments
    }
    scores = dict(zip(by_corruption, correct_for_number(list(by_corruption.values())), strict=True))
    _, first = np.unique(predictions.image, return_index=True)
    n_classes = 0 if space == ENTRY16 else rows.choices
    verdict = insufficient_data(space, predictions.label[first], n_classes)
    if verdict:
        scores = {name: without_claim(score, verdict) for name, score in scores.items()}
    results = SpaceResults(
        n_images=len(first),
        classes=len(np.unique(predictions.label)),
        left_out=0,
        verdict=verdict,
        clean_accuracy=estimate_mean(predictions.clean_correct, predictions, fit),
        means=mean_scores(scores, list(scores), len(first)),
        corruptions=scores,
        corruption_error=None,
        similar=(),
        by_class=(),
    )
    return results, tuple(_notes(rows, results, humans[0], fit))


def _check_predictions(rows: HumanResponses, files: Sequence[Path]) -> None:
    for column, texts in (("orig_pred", rows.clean_response), ("transf_pred", rows.response)):
        if (missing := int((texts == "").sum())) > 0:
            raise UsageError(
                f"{files[0]} must have a prediction in every row, but {column} is empty in"
                f" {missing:,} of {len(rows):,} rows: remove these rows."
            )


def _predictions(rows: HumanResponses) -> Predictions:
    n = len(rows)
    # Rows of unknown images are resampled one by one.
    names = np.where(rows.image != "", rows.image, np.char.add("row ", np.arange(n).astype(str)))
    images, image = np.unique(names, return_inverse=True)
    unknown = np.full(n, np.nan)
    return Predictions(
        delta_v=rows.delta_v,
        severity=unknown,
        image=image,
        label=np.unique(rows.label, return_inverse=True)[1],
        correct=rows.correct,
        consistent=rows.consistent,
        clean_correct=(rows.clean_response == rows.label).astype(np.float64),
        blank_correct=unknown,
        blank_consistent=unknown,
        resampled_images=np.arange(len(images)),
    )


def _notes(
    rows: HumanResponses, results: SpaceResults, references: References | None, fit: Fit
) -> list[str]:
    notes = [results.verdict] if results.verdict else []
    mixes: dict[tuple[str, str], str] = {}
    for corruption, score in results.corruptions.items():
        properties = score.properties.values()
        is_compared = any(scored.humans is not None for scored in properties)
        for scored in properties:
            # That a property has no reference is in the line on the reference of the other.
            reason = "" if is_compared and scored.human_note == NO_REFERENCE else scored.human_note
            if scored.note or reason:
                notes.append(f"{corruption}: {(scored.note or reason).rstrip('.')}")
        source = None if references is None else references.source(corruption)
        experiment = None if source is None else source.match(corruption)
        if source is None or experiment is None:
            continue
        compared = zip(METRICS, (score.accuracy, score.consistency), strict=True)
        metrics = [name for name, scored in compared if scored and scored.humans is not None]
        mix = category_mix(rows.label[rows.corruption == corruption])
        note = mix_note(source, experiment, metrics, mix, "this file", **fit.human_options())
        if note:
            mixes[source.name, experiment] = note.rstrip(".")
    return [*dict.fromkeys(notes), *mixes.values()]
