"""How much a human area depends on the proportions in which categories were shown.

Humans recognize some categories better than others. If a reference and a test show categories in
different proportions, a comparison of humans with models is also one of categories.
"""

from collections.abc import Iterable
from typing import Any

from eyechart.core.errors import UsageError
from eyechart.humans.human_fit import CategoryMix, category_mix
from eyechart.humans.reference import Reference, title

MAX_DIFFERENCE = 0.1
"""Share of responses that may be to other categories than in a test before this is reported."""

SCORES = {"accuracy": "R_a", "consistency": "R_p"}


def mix_note(
    reference: Reference,
    experiment: str,
    metrics: Iterable[str],
    mix: CategoryMix,
    test: str,
    **fit: Any,
) -> str:
    """Return a sentence with the human areas in the proportions of a test; "" if they are alike.

    Args:
        reference: The human reference.
        experiment: The experiment.
        metrics: The properties that have a human curve.
        mix: The shares of categories in the test. Categories that humans did not see are left out.
        test: Name of the test in the sentence.
        **fit: Arguments of `Reference.curve`.
    """
    rows = reference.responses.only(reference.responses.corruption == experiment)
    own = category_mix(rows.label, rows.trials)
    differences = {name: mix.get(name, 0.0) - own.get(name, 0.0) for name in sorted({*own, *mix})}
    common = {name: share for name, share in mix.items() if name in own}
    if not common or sum(map(abs, differences.values())) / 2 <= MAX_DIFFERENCE:
        return ""
    total = sum(common.values())
    weighted = {name: share / total for name, share in common.items()}
    # Only the area is needed, no interval.
    in_mix = {"category_mix": weighted, "n_bootstrap": 1}
    areas = []
    for metric in metrics:
        try:
            curves = [
                reference.curve(experiment, metric, **fit),
                reference.curve(experiment, metric, **{**fit, **in_mix}),
            ]
        except UsageError:
            continue  # too few responses remain in the categories of the test
        one, two = (None if curve is None else curve.area for curve in curves)
        if one is not None and two is not None:
            areas.append(
                f"{SCORES[metric]} of humans is {one:.3f}, and {two:.3f} in those of {test}"
            )
    if not areas:
        return ""
    name = max(differences, key=lambda name: abs(differences[name]))
    return (
        f"{title(experiment)} ({reference.name}) shows categories in other proportions than {test},"
        f" such as {name} in {own.get(name, 0):.0%} instead of {mix.get(name, 0):.0%}. In its own"
        f" proportions {'; '.join(areas)}."
    ).replace("%", " %")
