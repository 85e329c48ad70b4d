"""A verdict on a model that cannot be set beside people: by mCE, R_a, R_p or its errors."""

from markupsafe import Markup

from eyechart.reports.html.cells import Numbers, count, percent, score
from eyechart.reports.series.report import ModelEntry, Part
from eyechart.reports.words import corruption_words, plural, short_names

LEAST = 0.01
"""Share of wrong answers from which on a corruption is worth naming."""


def without_people(part: Part, model: ModelEntry, numbers: Numbers) -> Markup:
    """Return a verdict by the first score that there is: mCE, R_a, R_p or the error."""
    space = part.standings.space
    scores = model.space(space)
    path = ("models", model.index, "spaces", space)
    if scores is None:
        return Markup("has no scores in the label space of this test.")
    text = Markup("")
    if scores.verdict:
        pictures = numbers.cell(count, *path, "pictures")
        text = Markup("cannot be judged: {} {} are too few for a claim. As far as they go, it ")
        text = text.format(pictures, plural(scores.pictures, "picture"))
    errors = scores.corruption_error
    # means over some of the corruptions are no score of the whole, and no board has them
    present = part.standings.scores
    if "mce" in present and errors is not None and errors.baseline == model.name:
        claim = Markup("is the model by whose errors those of the others are divided (mCE)")
    elif errors is not None and errors.mce is not None:
        mce = numbers.estimate(percent, *path, "corruption_error", "mce")
        baseline = short_names([errors.baseline])[0]
        claim = Markup("makes {} of the errors of {} (mCE)").format(mce, baseline)
    elif "r_a" in present and "r_a" in scores.means:
        claim = Markup(
            "is right in {} of its answers if every visual change is as likely as any other (Rₐ {})"
        )
        claim = _mean(claim, numbers, path, "r_a")
    elif "r_p" in present and "r_p" in scores.means:
        claim = Markup(
            "gives the answer that it gave to the clean picture in {} of cases, if every visual"
            " change is as likely as any other (Rₚ {})"
        )
        claim = _mean(claim, numbers, path, "r_p")
    elif "error" in scores.means:
        error = numbers.estimate(percent, *path, "means", "error")
        claim = Markup("is wrong in {} of its answers to corrupted pictures").format(error)
    else:
        claim = Markup("has no score over all corruptions")
    return text + claim + _hardest(part, model, numbers, space) + "."


def _mean(text: Markup, numbers: Numbers, path: tuple[str | int, ...], name: str) -> Markup:
    estimate = numbers.estimate(percent, *path, "means", name)
    return text.format(estimate, numbers.cell(score, *path, "means", name, "value"))


def _hardest(part: Part, model: ModelEntry, numbers: Numbers, space: str) -> Markup:
    """Return the corruption with the most wrong answers."""
    scores = model.space(space)
    assert scores is not None
    errors = {
        name: score.error.value
        for name, score in scores.corruptions.items()
        if score.error is not None and score.error.is_known
    }
    worst = max(errors, key=lambda name: errors[name], default="")
    if len(errors) < 2 or errors[worst] < LEAST:
        return Markup("")
    path = ("models", model.index, "spaces", space, "corruptions", worst, "error", "value")
    text = Markup("; it errs most under {} ({})")
    return text.format(corruption_words(worst), numbers.cell(percent, *path))
