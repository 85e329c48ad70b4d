"""Human references of an evaluation, and records of their experiments."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.humans.combined import References, check_names
from eyechart.humans.human_fit import CategoryMix
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.humans.placement import HUMAN_RULER
from eyechart.humans.reference import METRICS, Reference, find_reference, title
from eyechart.humans.reference_caveats import (
    DroppedBounds,
    dropped_bounds,
    mix_note,
    simulated_note,
)
from eyechart.humans.transfer import find_classes
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart.images.labels.spaces import ENTRY16
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.results.curve_results import (
    FlowCount,
    HumanCurve,
    HumanExperiment,
    HumanPoint,
    HumanStudy,
    sample_curve,
)
from eyechart.scores.scoring import OTHER_RULER, Fit, human_curve
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL


def find_humans(settings: EvaluateSettings) -> tuple[References | None, str]:
    """Return the human references to compare with; if there are none, None and the reason.

    References in which humans did not have 16 choices are rejected if the 16 categories were
    requested, and left out otherwise.
    """
    if not settings.human_names:
        return find_references(settings, settings.plan.labels)
    # The Δv of human responses has one definition; curves over a different Δv are not comparable.
    if settings.plan.ruler != HUMAN_RULER:
        return None, (
            f"{OTHER_RULER}: human responses have visual changes measured by {HUMAN_RULER},"
            f" but this test uses {settings.plan.ruler}"
        )
    return find_references(settings, settings.plan.labels)


def find_references(settings: ComparisonSettings, labels: str) -> tuple[References | None, str]:
    """Return the human references as `find_humans` does, for Δv of any origin.

    Args:
        settings: The references, and how they are compared.
        labels: The requested label space.
    """
    similar = find_classes(settings.similar_names)
    if not settings.human_names:
        return None, "no human reference was requested"
    references, reasons = [], []
    for name in settings.human_names:
        reference, reason = _find(settings, name, labels)
        if reference is None:
            reasons.append(reason)
        else:
            references.append(replace(reference, similar=similar))
    if reasons:
        if len(settings.human_names) == 1:
            return None, reasons[0]
        # Leaving out one of several references silently would change who models are compared with.
        raise UsageError(
            f"One of the human references cannot be used ({reasons[0]}): give --chance-correct,"
            " or omit that reference."
        )
    check_names(references)
    return References(tuple(references)), ""


def _find(settings: ComparisonSettings, name: str, labels: str) -> tuple[Reference | None, str]:
    reference = find_reference(name, settings.clean_responses)
    if reference.choices != len(CATEGORIES):
        if settings.chance_correct:
            return reference.for_choices(len(CATEGORIES), chance_correct=True), ""
        if labels == ENTRY16:
            raise UsageError(
                f"Humans had {reference.choices} choices in {reference.name}, not"
                f" {len(CATEGORIES)}: give --chance-correct to correct humans and models"
                " for chance, or another --humans."
            )
        return None, f"humans had {reference.choices} choices, not {len(CATEGORIES)}"
    if reference.label_space != ENTRY16:
        raise UsageError(
            f"The human reference {reference.name} uses the label space {reference.label_space!r},"
            " not the 16 categories: give another --humans, or none."
        )
    return reference, ""


def experiments_of(references: References | Reference, fit: Fit) -> tuple[HumanExperiment, ...]:
    """Return the human experiments, with curves fitted as in the comparison with models."""
    return tuple(
        _experiment(reference, name, fit, names_reference=len(references.parts) > 1)
        for reference in references.parts
        for name in reference.experiments
    )


def _experiment(
    reference: Reference, name: str, fit: Fit, *, names_reference: bool
) -> HumanExperiment:
    similar = reference.similar.find(name)
    accuracy, consistency = (_human_curve(reference, name, metric, fit) for metric in METRICS)
    bounds = _bounds(reference, name, fit) if accuracy is not None else None
    return HumanExperiment(
        name=name,
        title=f"{title(name)} ({reference.name})" if names_reference else title(name),
        kind="" if similar is None else similar.name,
        members=reference.similar.members_of(name),
        size=reference.size_in_words(name),
        accuracy=accuracy,
        consistency=consistency,
        tested=reference.similar.is_tested(name),
        evidence="" if similar is None else similar.evidence,
        reference=reference.name,
        n_dropped=0 if bounds is None else bounds.n_dropped,
        dropped_areas=None if bounds is None else (bounds.incorrect.area, bounds.correct.area),
    )


def studies_of(references: References | Reference) -> tuple[HumanStudy, ...]:
    """Return the studies of the references that have a flow of participants, or robots."""
    studies = []
    for reference in references.parts:
        responses = reference.responses
        names = list(dict.fromkeys(step.study for step in responses.flow))
        # simulated responses without a flow still count as a study, so that they are marked
        for name in names or [""] * responses.simulated:
            flow = tuple(
                FlowCount(step=step.step, rule=step.rule, count=step.count)
                for step in responses.flow
                if step.study == name
            )
            study = HumanStudy(
                reference=reference.name, study=name, simulated=responses.simulated, flow=flow
            )
            studies.append(study)
    return tuple(studies)


def notes_on_humans(
    references: References | Reference,
    experiments: Sequence[HumanExperiment],
    used: Collection[tuple[str, str]],
    mix: CategoryMix,
    fit: Fit,
) -> Iterator[str]:
    """Yield a sentence for what limits a comparison with these humans.

    Args:
        references: The human references.
        experiments: Their experiments.
        used: Reference and experiment of every comparison with a model.
        mix: Shares of the categories in the test; empty without labels.
        fit: How curves are fitted.
    """
    for reference in references.parts:
        if reference.responses.simulated:
            yield simulated_note(reference)
    for experiment in experiments:
        if experiment.dropped_areas is not None and experiment.accuracy is not None:
            area, (low, high) = experiment.accuracy.line.fitted.area, experiment.dropped_areas
            yield (
                f"{experiment.title}: participants dropped"
                f" {count_of(experiment.n_dropped, 'trial')}. The human area is {area:.4f}; it"
                f" would be {low:.4f} if all of these were incorrect, and {high:.4f} if all were"
                " correct."
            )
    for reference in references.parts:
        for experiment in experiments:
            if (reference.name, experiment.name) not in used or not mix:
                continue
            curves = zip(METRICS, (experiment.accuracy, experiment.consistency), strict=True)
            metrics = [metric for metric, curve in curves if curve is not None]
            note = mix_note(
                reference, experiment.name, metrics, mix, "this test", **fit.human_options()
            )
            if note:
                yield note


def _bounds(reference: Reference, name: str, fit: Fit) -> DroppedBounds | None:
    try:
        return dropped_bounds(reference, name, **fit.human_options())
    except UsageError:
        # A curve may exist, but not under these assumptions, such as with no correct response.
        return None


def _human_curve(reference: Reference, name: str, metric: str, fit: Fit) -> HumanCurve | None:
    curve, _ = human_curve(reference, name, metric, fit)
    if curve is None:
        return None
    # Rates of conditions are not corrected for chance, so they would not match the curve.
    points = () if reference.corrected else reference.points(name, metric)
    return HumanCurve(
        line=sample_curve(curve),
        points=tuple(
            HumanPoint(
                delta_v=point.delta_v,
                n_responses=point.n_responses,
                rate=point.rate,
                interval95=point.interval(CONFIDENCE),
                interval83=point.interval(PUBLISHED_LEVEL),
            )
            for point in points
        ),
    )
