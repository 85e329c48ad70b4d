"""Combine several human references: choose one for each corruption, or merge their files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.humans.human_responses import HumanResponses, join_responses
from eyechart.humans.reference import Reference
from eyechart.humans.transfer import SimilarClasses


@dataclass(frozen=True, eq=False)
class References:
    """Human references in order of precedence.

    Responses to a corruption itself take precedence over transferred responses, regardless of the
    reference; otherwise the first reference is used. Accuracy and consistency are looked up
    separately.
    """

    parts: tuple[Reference, ...]

    def source(self, corruption: str, metric: str = "accuracy") -> Reference | None:
        """Return the reference used for a corruption, or None if no reference covers it."""
        candidates = [part for part in self.parts if part.source(corruption, metric) is not None]
        # Precedence instead of pooling, which would silently mix crowd and laboratory data.
        direct = [part for part in candidates if part.kind(corruption) == "direct"]
        return next(iter(direct or candidates), None)

    @property
    def similar(self) -> SimilarClasses:
        """Classes of similar corruptions, which all references share."""
        return self.parts[0].similar

    @property
    def has_consistency(self) -> bool:
        """Whether consistency with the clean image is known for at least one response."""
        return any(np.isfinite(part.responses.consistent).any() for part in self.parts)

    @cached_property
    def responses(self) -> HumanResponses:
        """All responses; participants from different references stay distinct."""
        if len(self.parts) == 1:
            return self.parts[0].responses
        return join_responses([_named(part.responses, part.name) for part in self.parts])


def check_names(references: Sequence[Reference]) -> None:
    """Raise a UsageError if two references have the same name."""
    names = [reference.name for reference in references]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"Human references must have different names, got {name} twice: omit one, or "
                "rename its file."
            )


def merge(references: Sequence[Reference]) -> HumanResponses:
    """Return the pooled responses of several references, to be written to one file.

    Responses to the same corruption are pooled. Participants and clean images from different
    references stay distinct: a curve starts at the accuracy that the participants who saw the
    corruption reached on clean images, and each reference's own rule determines consistency.
    """
    check_names(references)
    first, *rest = references
    for other in rest:
        for fact in ("choices", "label_space"):
            one, two = getattr(first, fact), getattr(other, fact)
            if one != two:
                raise UsageError(
                    f"Human references must have the same {fact} to be merged, got {one}"
                    f" ({first.name}) and {two} ({other.name}): keep them separate, and pass"
                    " --humans for each."
                )
    # `judged` determines consistency with each reference's rule before rows are pooled.
    parts = [_named(reference.judged, reference.name) for reference in references]
    judgements = tuple(
        replace(judgement, subject=f"{reference.name}/{judgement.subject}")
        if judgement.subject
        else judgement
        for reference in references
        for judgement in reference.responses.judgements
    )
    return replace(
        join_responses(parts),
        source="merged",
        citation=" ".join(
            dict.fromkeys(reference.citation for reference in references if reference.citation)
        ),
        license="; ".join(dict.fromkeys(part.license for part in parts if part.license)),
        judgements=judgements,
    )


def _named(responses: HumanResponses, name: str) -> HumanResponses:
    """Return the responses with the reference's name prefixed to participants and studies."""
    subject = np.where(
        # An unknown participant stays unknown; a prefix would make all of them one participant.
        responses.subject == "",
        "",
        np.char.add(f"{name}/", responses.subject.astype(np.str_)),
    )
    study = np.where(responses.study == "", name, responses.study)
    dropped = tuple(
        replace(trial, subject=f"{name}/{trial.subject}") for trial in responses.dropped
    )
    flow = tuple(replace(step, study=step.study or name) for step in responses.flow)
    return replace(responses, subject=subject, study=study, dropped=dropped, flow=flow)
