"""Notes on what limits the interpretation of scores, one sentence each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan

from eyechart.core.arguments import digits
from eyechart.core.phrases import count_of, first_names, verb
from eyechart.core.registry import one_of
from eyechart.corruptions.suites.suite import Entry, all_entries
from eyechart.pipeline.scoring.baseline import BaselineChoice
from eyechart.predictions.loop import PredictionTask
from eyechart.results.model_results import ModelResults, NormalizedErrors, SpaceResults
from eyechart.results.published_results import is_packaged, packaged_caution
from eyechart.scores.scoring import NO_HUMAN_CURVE, NO_REFERENCE, OTHER_RULER, Fit
from eyechart.stats.density import UNIFORM, to_density
from eyechart.testsets.coverage import CorruptionCoverage
from eyechart.testsets.plan import MOVED, Plan
from eyechart.visual_change.registry import find_ruler, geometry_rulers

MARK = "†"
"""Marks scores under corruptions that a model was trained on, and means that include them."""

MEANING = "trained on this corruption: not a test of unforeseen corruption"


Spaces = Sequence[tuple[str, SpaceResults]]
"""Pairs of a label space's name and a model's scores in it, for all models."""


FAR = 0.95
"""Corruptions should be observed up to this Δv; beyond it curves are extrapolated."""


OTHER_SIZE = 1.5
"""Ratio of input and stimulus size at and above which a note is written; 299 / 224 is common."""


def caveats_of(
    task: PredictionTask,
    models: Sequence[ModelResults],
    choice: BaselineChoice,
    fit: Fit,
    coverage: Mapping[str, CorruptionCoverage],
) -> Iterator[str]:
    """Yield one sentence for everything that limits the interpretation of the scores."""
    yield from unusual_settings(task.plan, fit)
    yield from task.images.notes
    yield from _other_sizes(task)
    spaces = [item for model in models for item in model.spaces.items()]
    # Without clean images there is another note, on missing curves.
    if all(space.clean_accuracy is None for _, space in spaces) and task.images.has_clean:
        yield "No labels: only consistency was scored, no accuracy."
    if task.images.damaged:
        n_damaged = len(task.images.damaged)
        names = first_names([image.name for image in task.images.damaged])
        yield (
            f"{count_of(n_damaged, 'damaged image')} {verb(n_damaged, 'was')} left out: {names}."
        )
    full_side = find_ruler(task.plan.ruler).full_side
    if min(map(min, set(task.images.sizes))) < full_side and task.images.has_clean:
        yield (
            f"Images smaller than {full_side} px have fewer scales: their Δv is not comparable with"
            " the Δv of larger images."
        )
    if task.plan.labels == "native" and any(label is None for label in task.images.labels):
        count = sum(label is None for label in task.images.labels)
        total = count_of(len(task.images), "image")
        them = "it" if count == 1 else "them"
        yield f"{count:,} of {total} {verb(count, 'has')} no label: accuracy excludes {them}."
    # The verdict depends on the images only: one sentence per label space, not per model.
    firsts: dict[str, SpaceResults] = {}
    for name, space in spaces:
        if firsts.setdefault(name, space) is space and space.verdict:
            yield f"{name}: {space.verdict}."
    yield from _trained_on(models)
    yield from _same_files(task)
    yield from _without_curves(models)
    yield from _on_geometry(task, spaces[0][1])
    yield from _on_humans(spaces, fit)
    yield from _on_baseline(spaces, choice)
    count = sum(score.unmeasurable for score in spaces[0][1].corruptions.values())
    if count and task.images.has_clean:
        samples = f"{count_of(count, 'sample')} {verb(count, 'is')}"
        images = "its image is" if count == 1 else "their images are"
        yield f"{samples} excluded from curves: {images} too uniform for a Δv."
    # The areas of geometric corruptions end where their visual change ends.
    plan = task.plan
    moved = {
        entry.name
        for entry in plan.entries()
        if entry.geometric and plan.why_no_curve(entry) != MOVED
    }
    yield from _unobserved({name: bins for name, bins in coverage.items() if name not in moved})


def _on_geometry(task: PredictionTask, space: SpaceResults) -> Iterator[str]:
    """Yield which rulers can measure geometric corruptions, or over which range this one did."""
    moved = [entry for entry in task.plan.entries() if entry.geometric]
    reasons = {task.plan.why_no_curve(entry) for entry in moved}
    if MOVED in reasons and (rulers := geometry_rulers()):
        yield (
            f"The ruler {task.plan.ruler} cannot measure geometric corruptions; with --ruler"
            f" {one_of(rulers)} they get curves."
        )
    reach = {
        entry.name: results.observed[-1][1]
        for entry in moved
        for results in [*space.corruptions[entry.name].properties.values()][:1]
        if results.robustness is not None
    }
    if reach:
        ranges = ", ".join(f"{name} {end:.2f}" for name, end in reach.items())
        yield (
            "Areas of geometric corruptions are means over the visual change that they reach, from"
            f" 0 up to: {ranges}."
        )


def _other_sizes(task: PredictionTask) -> Iterator[str]:
    """Yield a sentence for each model whose input is much larger or smaller than the stimulus."""
    for model in task.models:
        side, shorter = model.side, min(task.images.sizes[0])
        if side is None or max(side / shorter, shorter / side) < OTHER_SIZE:
            continue
        how = "enlarges" if side > shorter else "reduces"
        yield (
            f"{model.name} {how} the corrupted images of {shorter} px to its input of {side} px;"
            " --stimulus sets the size at which images are corrupted."
        )


def unusual_settings(plan: Plan, fit: Fit) -> Iterator[str]:
    """Yield a sentence for each setting whose value makes scores not comparable with others."""
    if plan.ruler != Plan().ruler:
        yield f"Visual change is measured by {plan.ruler}, not by {Plan().ruler}."
    density = to_density(fit.density)
    if density != UNIFORM:
        yield f"Areas are weighted by the density {density.identity} over Δv."
    if "@" in plan.suite:
        yield f"Suite: {plan.suite}."


def _unobserved(coverage: Mapping[str, CorruptionCoverage]) -> Iterator[str]:
    """Yield a sentence if curves are extrapolated beyond the observed range."""
    largest = {name: bins.largest for name, bins in coverage.items()}
    n_short = sum(value < FAR for value in largest.values())
    if n_short:
        lowest = _below(min(largest.values()), FAR)
        yield (
            f"{n_short} of {count_of(len(largest), 'corruption')} {verb(n_short, 'ends')} below"
            f" Δv {FAR:g} (the lowest at {lowest}); curves are extrapolated from there on, within"
            " the limits in 'bounds' in results.json."
        )


def _below(value: float, limit: float) -> str:
    """Return a value below a limit with two decimals, or with all if two would show the limit."""
    text = f"{value:.2f}"
    return text if float(text) < limit else digits(value)


def _on_humans(spaces: Spaces, fit: Fit) -> Iterator[str]:
    """Yield sentences on why there are no human curves, or on where human curves end."""
    scores = [
        score
        for _, space in spaces
        for corruption in space.corruptions.values()
        for score in corruption.properties.values()
    ]
    is_compared = any(score.humans is not None for score in scores)
    if NO_REFERENCE in {score.human_note for score in scores} and not is_compared:
        yield (
            "No human comparison: humans responded to none of these corruptions, nor to a similar "
            "one; see eyechart humans list."
        )
    notes = (score.human_note for score in scores)
    reasons = [note for note in notes if note.startswith((NO_HUMAN_CURVE, OTHER_RULER))]
    # dict.fromkeys removes duplicates and keeps the order.
    yield from dict.fromkeys(f"{note[0].upper()}{note[1:].rstrip('.')}." for note in reasons)
    if fit.right_anchor == "measured" and is_compared:
        yield (
            "Humans were not shown destroyed images: the human curve ends at chance, whereas the "
            "model's ends at the rate measured on destroyed images."
        )
    areas = {
        name: comparison.areas.human
        for _, space in spaces
        for name, score in space.corruptions.items()
        if score.accuracy is not None
        and (comparison := score.accuracy.humans) is not None
        and is_packaged(comparison.reference)
    }
    if areas:
        # The paper's areas have uniform density and no correction for chance; others are not
        # comparable.
        yield packaged_caution(areas if to_density(fit.density) == UNIFORM else {})


def _on_baseline(spaces: Spaces, choice: BaselineChoice) -> Iterator[str]:
    """Yield sentences that say why there is no CE or no mCE."""
    if choice.note:
        yield choice.note
    errors = [(name, space.corruption_error) for name, space in spaces]
    normalized = [(name, record) for name, record in errors if record is not None]
    yield from dict.fromkeys(f"{name}: {record.note}" for name, record in normalized if record.note)
    yield from dict.fromkeys(
        note for name, record in normalized for note in _undetermined(name, record)
    )
    if choice.name and not normalized:
        yield f"No CE: the baseline {choice.name} has no errors for these corruptions."


def _undetermined(space: str, errors: NormalizedErrors) -> Iterator[str]:
    """Yield the corruptions for which the interval of CE or relative CE is unbounded."""
    kinds = (
        ("CE", errors.ce, "errors"),
        ("relative CE", errors.relative_ce, "more errors than on clean images"),
    )
    for title, scores, divisor in kinds:
        names = [name for name, score in scores.items() if isnan(score.interval95[0])]
        if names:
            yield (
                f"{space}: the interval of {title} is undetermined for {', '.join(names)}: in"
                f" too many bootstrap replicates {errors.baseline} has no {divisor} to"
                " divide by; use more images."
            )


def _trained_on(models: Sequence[ModelResults]) -> Iterator[str]:
    """Yield for each model the corruptions of the test that it was trained on."""
    for model in models:
        if model.marked:
            yield (
                f"{MARK} {model.name} was trained on {', '.join(model.marked)}: its scores there, "
                "and means over them, are not a test of unforeseen corruption."
            )


def _same_files(task: PredictionTask) -> Iterator[str]:
    """Yield a sentence if the same file appears with two labels."""
    # Most datasets contain every file once, which is seen much faster than by the loop below.
    if len(set(task.images.digests)) == len(task.images.digests):
        return
    # Same digest, different labels: one of the two labels is wrong.
    first: dict[str, int] = {}
    pairs = []
    listed = task.images.listed
    for index, digest in enumerate(task.images.digests):
        other = first.setdefault(digest, index)
        if listed[other].label != listed[index].label:
            pairs.append((listed[other].name, listed[index].name))
    if pairs:
        count = f"{count_of(len(pairs), 'image')} {verb(len(pairs), 'is')}"
        one, two = pairs[0]
        yield f"{count} in the dataset twice with two labels: {one} and {two} have the same bytes."


def _without_curves(models: Sequence[ModelResults]) -> Iterator[str]:
    """Yield for each label space the corruptions without a curve, and why."""
    by_note: dict[tuple[str, str], dict[str, None]] = {}
    for model in models:
        for space, scores in model.spaces.items():
            for corruption, score in scores.corruptions.items():
                for results in score.properties.values():
                    if results.note:
                        by_note.setdefault((space, results.note), {})[corruption] = None
    for (space, note), names in by_note.items():
        first = next(iter(names))
        corruptions = first if len(names) == 1 else f"{len(names)} corruptions, such as {first}"
        yield f"{space}: {corruptions}: {note.rstrip('.')}."


def met_in_training(entries: Iterable[Entry], trained_on: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the tested corruptions that a model was trained on, in the given order.

    This includes corruptions that have the same name in another suite (`frost` and `vcr/frost`) or
    are made by the same function (`impulse_noise` and `noc/salt_pepper`), at any strength. The
    function of a corruption outside the published suites is known only if the test contains that
    corruption.
    """
    tested = list(entries)
    known = {**all_entries(), **{entry.name: entry for entry in tested}}
    names = {_bare(name) for name in trained_on}
    # The function, not only the name, since suites give the same corruption different names.
    functions = {known[name].function for name in trained_on if name in known}
    return tuple(
        entry.name for entry in tested if _bare(entry.name) in names or entry.function in functions
    )


def _bare(name: str) -> str:
    """Return the name of a corruption without its suite."""
    return name.rpartition("/")[2]
