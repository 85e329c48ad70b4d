"""The experiments with humans as results hold them: their curves and the rates behind them."""

from eyechart.humans.combined import References
from eyechart.humans.reference import METRICS, Reference, title
from eyechart.results.curve_results import HumanCurve, HumanPoint, sample_curve
from eyechart.results.schema import HumanExperiment
from eyechart.scores.scoring import Fit, human_curve


def experiments_of(references: References | Reference, fit: Fit) -> tuple[HumanExperiment, ...]:
    """Return the experiments with humans, fitted as they are when models are compared with them."""
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
    )


def _human_curve(reference: Reference, name: str, metric: str, fit: Fit) -> HumanCurve | None:
    curve, _ = human_curve(reference, name, metric, fit)
    if curve is None:
        return None
    # rates of conditions are not corrected for chance
    points = () if reference.corrected else reference.points(name, metric)
    return HumanCurve(
        line=sample_curve(curve),
        points=tuple(
            HumanPoint(
                delta_v=point.delta_v,
                answers=point.n_responses,
                rate=point.rate,
                interval95=point.interval(0.95),
                interval83=point.interval(0.83),
            )
            for point in points
        ),
    )
