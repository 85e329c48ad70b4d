"""The human references of an evaluation: those that were asked for, or why there are none."""

from dataclasses import replace

from eyechart.core.errors import UsageError
from eyechart.humans.combined import References, check_names
from eyechart.humans.placement import HUMAN_DEFINITION
from eyechart.humans.reference import Reference, find_reference
from eyechart.humans.transfer import find_classes
from eyechart.labels.categories import CATEGORIES
from eyechart.labels.spaces import ENTRY16
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.scores.scoring import OTHER_DEFINITION


def find_humans(settings: EvaluateSettings) -> tuple[References | None, str]:
    """Return the human references to compare with, or None and the reason why there are none.

    Humans who responded with something else than the 16 categories are rejected where those were
    asked for; elsewhere they are left aside.
    """
    similar = find_classes(settings.similar_names)
    if not settings.human_names:
        return None, "no human reference was asked for"
    if settings.plan.definition != HUMAN_DEFINITION:
        return None, (
            f"{OTHER_DEFINITION}: human responses are placed by the definition {HUMAN_DEFINITION}"
            f" of visual change, this test is by {settings.plan.definition}"
        )
    references, reasons = [], []
    for name in settings.human_names:
        reference, reason = _find(settings, name)
        if reference is None:
            reasons.append(reason)
        else:
            references.append(replace(reference, similar=similar))
    if reasons:
        if len(settings.human_names) == 1:
            return None, reasons[0]
        raise UsageError(
            f"Of several human references {reasons[0]}: give --match-choices, or leave it out."
        )
    check_names(references)
    return References(tuple(references)), ""


def _find(settings: EvaluateSettings, name: str) -> tuple[Reference | None, str]:
    reference = find_reference(name, settings.clean_responses)
    if reference.choices != len(CATEGORIES):
        if settings.match_choices:
            return reference.meeting(len(CATEGORIES), match_choices=True), ""
        if settings.plan.labels == ENTRY16:
            raise UsageError(
                f"People chose between {reference.choices} answers in {reference.name}, not"
                f" {len(CATEGORIES)}: give --match-choices to correct both sides for chance, or"
                " another --humans."
            )
        return None, f"people chose between {reference.choices} answers, not {len(CATEGORIES)}"
    if reference.label_space != ENTRY16:
        raise UsageError(
            f"The human reference {reference.name} has labels of {reference.label_space!r}, not of"
            " the 16 categories: give another --humans, or none."
        )
    return reference, ""
