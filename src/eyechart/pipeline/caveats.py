"""What a reader must know before reading the scores: one sentence each."""

from collections.abc import Iterator, Sequence
from math import isnan

from eyechart.curves.density import UNIFORM, to_density
from eyechart.pipeline.baseline import Choice
from eyechart.pipeline.trained_on import MARK
from eyechart.predictions.loop import PredictionTask
from eyechart.scores.evaluation import ModelScore, SpaceScore
from eyechart.scores.human_caution import is_packaged, packaged_caution
from eyechart.scores.scoring import NO_HUMAN_CURVE, NO_REFERENCE, OTHER_DEFINITION, Fit


def caveats_of(
    job: PredictionTask, models: Sequence[ModelScore], choice: Choice, fit: Fit
) -> Iterator[str]:
    """Yield a sentence for everything that limits what the scores say."""
    yield from job.images.notes
    spaces = [space for model in models for space in model.spaces]
    if all(space.clean_accuracy is None for space in spaces) and job.images.has_clean:
        yield "No labels: only consistency was scored, no accuracy."
    if job.images.damaged:
        names = ", ".join(each.name for each in job.images.damaged[:3])
        yield f"{len(job.images.damaged)} damaged pictures were left out: {names}."
    scales = {min(size) for size in job.images.sizes}
    if min(scales) < 72 and job.images.has_clean:
        yield "Pictures under 72 px have fewer scales: their Δv is another ruler than others have."
    if job.plan.labels == "native" and any(label is None for label in job.images.labels):
        count = sum(label is None for label in job.images.labels)
        yield f"{count} of {len(job.images)} pictures have no label: accuracy is without them."
    for space in dict.fromkeys(s.space for model in models for s in model.spaces):
        own = [each for model in models for each in model.spaces if each.space == space]
        if own[0].verdict:
            what = f"{_count(own[0].pictures, 'picture')} of {_count(own[0].classes, 'class')}"
            yield f"{space}: {what}: {own[0].verdict}."
    yield from _trained_on(models)
    yield from _same_files(job)
    yield from _without_curves(models)
    yield from _on_humans(spaces, fit)
    yield from _on_baseline(spaces, choice)
    lacking = {
        score.corruption: score.unmeasurable
        for model in models[:1] for space in model.spaces[:1] for score in space.corruptions
        if score.unmeasurable
    }  # fmt: skip
    if lacking and job.images.has_clean:
        count = sum(lacking.values())
        yield f"{count} answers are to pictures too even for Δv; curves are without them."


def _on_humans(spaces: Sequence[SpaceScore], fit: Fit) -> Iterator[str]:
    """Yield what must be known of the human curves: why there is none, and where they end."""
    scores = [
        score
        for space in spaces for own in space.corruptions for score in own.properties.values()
    ]  # fmt: skip
    if NO_REFERENCE in {own.why_no_people for own in scores} and not any(
        own.people for own in scores
    ):
        yield (
            "No human comparison: humans responded to none of these corruptions, nor to a similar"
            " one; see eyechart humans list for what there is."
        )
    told = (NO_HUMAN_CURVE, OTHER_DEFINITION)
    reasons = (own.why_no_people for own in scores if own.why_no_people.startswith(told))
    yield from dict.fromkeys(f"{why[0].upper()}{why[1:].rstrip('.')}." for why in reasons)
    if fit.right_anchor == "measured" and any(own.people is not None for own in scores):
        yield (
            "Humans were shown no destroyed images: where the model's curve ends at what was"
            " measured on those, the human curve ends at chance."
        )
    yield from _on_packaged(spaces, fit)


def _on_packaged(spaces: Sequence[SpaceScore], fit: Fit) -> Iterator[str]:
    """Yield how the packaged human reference compares with the published crowd, where used."""
    scores = [(own.corruption, own.accuracy) for space in spaces for own in space.corruptions]
    areas = {
        name: score.people.areas.human
        for name, score in scores
        if score is not None and score.people is not None and is_packaged(score.people.reference)
    }
    if areas:
        # the paper's areas are over Δv with equal weight, and of rates as they are
        yield packaged_caution(areas if to_density(fit.density) == UNIFORM else {})


def _on_baseline(spaces: Sequence[SpaceScore], choice: Choice) -> Iterator[str]:
    """Yield why there is no CE or no mCE, if there is none."""
    if choice.note:
        yield choice.note
    yield from dict.fromkeys(
        f"{space.space}: {space.normalised.note}"
        for space in spaces
        if space.normalised is not None and space.normalised.note
    )
    yield from dict.fromkeys(note for space in spaces for note in _undetermined(space))
    if choice.name and all(space.normalised is None for space in spaces):
        yield f"No CE: the baseline {choice.name} has no errors for these corruptions."


def _undetermined(space: SpaceScore) -> Iterator[str]:
    """Yield of which corruptions the interval of CE, or of relative CE, is undetermined."""
    if space.normalised is None:
        return
    kinds = (
        ("CE", space.normalised.ce, "errors"),
        ("relative CE", space.normalised.relative_ce, "more errors than on clean images"),
    )
    for title, scores, what in kinds:
        names = [name for name, own in scores.items() if isnan(own.interval[0])]
        if names:
            yield (
                f"{space.space}: the interval of {title} is undetermined for {', '.join(names)}: in"
                f" too many bootstrap replicates {space.normalised.baseline} has no {what} to"
                " divide by; use more images."
            )


def _trained_on(models: Sequence[ModelScore]) -> Iterator[str]:
    """Yield for each model which corruptions of the test it met in training."""
    for model in models:
        if model.marked:
            yield (
                f"{MARK} {model.name} was trained on {', '.join(model.marked)}: its scores there,"
                " and means over them, are no test of unforeseen corruption."
            )


def _same_files(job: PredictionTask) -> Iterator[str]:
    """Yield a sentence if the same file has two labels."""
    first: dict[str, int] = {}
    found = []
    for place, digest in enumerate(job.images.digests):
        other = first.setdefault(digest, place)
        if job.images.labels[other] != job.images.labels[place]:
            found.append((job.images.pictures[other].name, job.images.pictures[place].name))
    if found:
        count = "1 picture is" if len(found) == 1 else f"{len(found)} pictures are"
        one, two = found[0]
        yield f"{count} there twice with two labels: {one} and {two} have the same bytes."


def _without_curves(models: Sequence[ModelScore]) -> Iterator[str]:
    """Yield for each label space which corruptions have no curve, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for model in models:
        for space in model.spaces:
            for score in space.corruptions:
                for own in score.properties.values():
                    if own.why:
                        names = found.setdefault((space.space, own.why), [])
                        names += [] if score.corruption in names else [score.corruption]
    for (where, why), names in found.items():
        which = names[0] if len(names) == 1 else f"{len(names)} corruptions, such as {names[0]}"
        yield f"{where}: {which}: {why.rstrip('.')}."


def _count(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number} {what}{'es' if what.endswith('s') else 's'}"
