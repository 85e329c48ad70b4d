"""What is needed to re-run an evaluation: its command, versions, images, models and settings."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from markupsafe import Markup

from eyechart.core.phrases import first_names, plural, verb
from eyechart.images.stimulus import FILES, find_stimulus
from eyechart.reports.hidden_paths import PATHS
from eyechart.reports.html.html_table import (
    NOTHING,
    Column,
    Table,
    TableRow,
    counted,
    counted_of,
    text_columns,
)
from eyechart.reports.series.report import Report
from eyechart.reports.series.run_sentences import energy_text, time_text
from eyechart.reports.titles import corruption_title, space_title, suite_title
from eyechart.results.runs import Run
from eyechart.results.schema import RESULTS_FILE
from eyechart.scores.registry import PROPERTIES

FIRST = 5
"""Maximum number of files or reasons that are shown."""

HUMAN_SPACE = "entry16"
"""The label space of human responses."""

LEFT_OUT = ("models", "corruptions", "means_over", "fit", "images")
"""Settings that the page shows elsewhere."""


def provenance_of(report: Report, index: int) -> dict[str, object]:
    """Return the content of the page for the provenance of a run, as the template names it."""
    run = report.runs[index]
    return {
        "title": f"Run {index + 1}: {suite_title(run.config.suite)}",
        "command": run.results.run.command,
        "facts": list(_facts(run)),
        "tables": (
            _models(run, index),
            _two_columns(
                f"versions-{index}",
                f"Software versions of run {index + 1}",
                ("Package", "Version"),
                run.results.run.versions,
            ),
            _settings(run, index),
            _files(report, index),
        ),
        # Sentences on what was skipped, and why.
        "skipped": list(_skipped(report, run)),
        "where": RESULTS_FILE if PATHS in report.hidden else str(run.folder / RESULTS_FILE),
    }


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    info, images = run.results.run, run.results.images
    yield "Made", info.made or "not recorded"
    yield "eyechart", info.versions.get("eyechart", "unknown")
    yield (
        "Source code",
        f"git {info.git}" if info.git else "installed without git history",
    )
    yield "Device", info.device
    yield "Run time", time_text(info)
    yield "Energy", energy_text(info)
    used, present = counted(images.used), counted(images.n_images)
    yield "Images", Markup("{} of {} from {}").format(used, present, info.images or images.source)
    yield "Digest of the images", Markup("<code>{}</code>").format(images.digest)
    stimulus = images.stimulus
    description = "" if stimulus == FILES else f": {find_stimulus(stimulus).description}"
    yield "Stimulus", stimulus + description
    yield "Seed", str(run.config.seed)


def _models(run: Run, index: int) -> Table:
    columns = (
        *text_columns("Model"),
        Column("Classes"),
        *text_columns("Weights"),
        Column("Trained on", numeric=False, hint="corruptions known to be in its training"),
    )
    rows = tuple(
        TableRow(
            (
                model.name,
                counted(model.classes),
                Markup("<code>{}</code>").format(model.identity or "no digest"),
                ", ".join(model.trained_on) or NOTHING,
            )
        )
        for model in run.results.models
    )
    return Table(
        f"models-{index}",
        f"Models of run {index + 1}, each with the digest of its weights",
        columns,
        rows,
    )


def _settings(run: Run, index: int) -> Table:
    written = run.config.written()
    config = {name: value for name, value in written.items() if name not in LEFT_OUT}
    config["n"] = run.shown
    config |= {f"curve: {name}": value for name, value in written["fit"].items()}
    values = {name.replace("_", " "): _plain(value) for name, value in config.items()}
    caption = f"Settings of run {index + 1}"
    return _two_columns(f"settings-{index}", caption, ("Setting", "Value"), values)


def _files(report: Report, index: int) -> Table:
    digests = list(report.runs[index].results.images.digests.items())
    # Pairs, not a mapping: two names may be the same without their folders.
    rows = tuple(
        TableRow((_file_name(report, name), Markup("<code>{}</code>").format(digest)))
        for name, digest in digests[:FIRST]
    )
    more = max(0, len(digests) - FIRST)
    note = f"And {more:,} more in {RESULTS_FILE}." if more else ""
    columns = text_columns("File", "SHA-256")
    return Table(f"files-{index}", f"Images of run {index + 1}", columns, rows, note=note)


def _file_name(report: Report, name: str) -> str:
    """Return the name of an image, without its folder if paths are hidden."""
    return PurePath(name).name if PATHS in report.hidden else name


def _two_columns(
    identity: str, caption: str, titles: tuple[str, str], cells: Mapping[str, str]
) -> Table:
    rows = tuple(TableRow(pair) for pair in cells.items())
    return Table(identity, caption, text_columns(*titles), rows)


def _skipped(report: Report, run: Run) -> Iterator[str | Markup]:
    """Yield sentences that say which images were left out, and why."""
    damaged = run.results.images.damaged
    for image in damaged[:FIRST]:
        yield f"{_file_name(report, image.name)} was left out: {image.why}."
    if len(damaged) > FIRST:
        more = len(damaged) - FIRST
        text = Markup("{} more {} {} left out.")
        yield text.format(counted(more), plural(more, "damaged image"), verb(more, "was"))
    reported = set()
    for model in run.results.models:
        for space, scores in model.spaces.items():
            if scores.left_out and (space, scores.left_out) not in reported:
                reported.add((space, scores.left_out))
                images, were = counted_of(scores.left_out, "image"), verb(scores.left_out, "was")
                text = Markup("{} {} left out in {}: the labels are not among these classes.")
                yield text.format(images, were, space_title(space))
    yield from _unmeasurable(run)
    yield from _reasons(run)


def _unmeasurable(run: Run) -> Iterator[Markup]:
    """Yield the numbers of predictions without Δv, which are the same for all models."""
    if not run.coverage:
        return  # Without clean images visual change is undefined for every prediction.
    for space, scores in run.results.models[0].spaces.items():
        for name, score in scores.corruptions.items():
            if score.unmeasurable:
                text = Markup("{}: {} predictions have no Δv: the images are too uniform ({}).")
                predictions = counted(score.unmeasurable)
                yield text.format(corruption_title(name), predictions, space_title(space))


def _reasons(run: Run) -> Iterator[str]:
    """Yield sentences that say why corruptions have no curve or no human comparison."""
    collected: dict[tuple[str, str], dict[str, list[str]]] = {}
    for model in run.results.models:
        for space, scores in model.spaces.items():
            for name, corruption in scores.corruptions.items():
                for letter, scored in corruption.properties.items():
                    # Models are compared with humans in the human label space, if they are scored
                    # there.
                    asked = space == HUMAN_SPACE or HUMAN_SPACE not in model.spaces
                    reason = scored.note or (scored.human_note if asked else "")
                    if reason:
                        by_property = collected.setdefault((reason.rstrip("."), space), {})
                        names = by_property.setdefault(PROPERTIES[letter], [])
                        title = corruption_title(name)
                        names += [] if title in names else [title]
    for (reason, space), by_property in collected.items():
        # A reason that holds for both properties and the same corruptions is given once.
        alike = (
            len(by_property) == len(PROPERTIES) and len(set(map(tuple, by_property.values()))) == 1
        )
        for selection, names in list(by_property.items())[: 1 if alike else None]:
            of = "" if alike else f"{selection}: "
            yield f"{first_names(names, FIRST)}: {of}{reason} ({space_title(space)})."


def _plain(value: object) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    return str(value)
