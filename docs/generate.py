"""Fills the tables of the documentation from the declarations, whenever the pages are built.

A page holds a comment such as `<!-- corruptions -->`, which is replaced by what is generated here.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.main import get_command

import eyechart
from eyechart.cli.app import add_separate_commands, app
from eyechart.core.options import GROUPS, Field, fields_of
from eyechart.corruptions.suites.catalogue import describe_corruption, describe_parameter
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.corruptions.suites.suite import Entry, all_entries, load_suite
from eyechart.images.published_source import SEVERITIES
from eyechart.models.registries import NETWORKS
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.results.schema import Results
from eyechart.scores.registry import DECLARED

SCHEMA = "results.schema.json"
EXPERIMENT = "packages/experiment/docs"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the JSON Schema of results.json to the site, from where the package keeps it."""
    source = Path(eyechart.__file__).parent / "results" / SCHEMA
    files.append(File.generated(config, f"reference/{SCHEMA}", abs_src_path=str(source)))
    for path in (Path(config.docs_dir).parent / EXPERIMENT).iterdir():
        files.append(File.generated(config, f"experiment/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with its tables (MkDocs calls this for every page).

    In the repository, pages of the experiment are in its own folder; on the site they are in a
    folder beside the others.
    """
    markdown = markdown.replace(f"](../../{EXPERIMENT}/", "](../experiment/")
    markdown = markdown.replace(f"](../{EXPERIMENT}/", "](experiment/")
    markdown = markdown.replace("](../../../docs/", "](../")
    for name, make in TABLES.items():
        marker = f"<!-- {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, make())
    return markdown


def corruptions() -> str:
    """Return every corruption with its parameters and their values at severities 1…5."""
    parts = []
    for suite in map(load_suite, PUBLISHED):
        entries = [entry for entry in suite if all_entries()[entry.name].suite == suite.name]
        if entries:
            parts += [f"## {suite.title}", *(_one(entry) for entry in entries)]
    return "\n\n".join(parts)


def _one(entry: Entry) -> str:
    about = describe_corruption(entry.name)
    facts = [f"Group {about.group}"]
    facts += [f"variants: {', '.join(about.variants)}"] if about.variants else []
    facts += ["geometric: moves objects in the image"] if about.geometric else []
    facts += ["effect not monotone in severity"] if not about.monotone else []
    lines = [f"### `{about.name}`", f"{about.summary} *{'; '.join(facts)}.*"]
    rows = []
    for parameter in about.parameters:
        values = about.severities.get(parameter.name)
        cells = [f"{value:.4g}" for value in values] if values else [_how(about, parameter.name)]
        cells += [""] * (len(SEVERITIES) - len(cells))
        text = describe_parameter(parameter).removeprefix(f"{parameter.name}: ")
        rows.append([f"`{parameter.name}`", text, *cells])
    lines.append(_table(["parameter", "range and meaning", *map(str, SEVERITIES)], rows))
    if about.note:
        lines.append(about.note)
    return "\n\n".join(lines)


def _how(about: Any, name: str) -> str:
    return "towards its draw" if name in about.towards_draw else "drawn"


def suites() -> str:
    """Return the suites with their members."""
    rows = []
    for suite in map(load_suite, PUBLISHED):
        names = ", ".join(f"`{entry.name}`" for entry in suite)
        rows.append([f"`{suite.name}`", str(len(suite)), names, suite.source])
    return _table(["suite", "count", "corruptions", "source"], rows)


def not_monotone() -> str:
    """Return the corruptions whose effect does not grow steadily with severity."""
    rows = [
        [f"`{entry.name}`", entry.note] for entry in all_entries().values() if not entry.monotone
    ]
    return _table(["corruption", "why"], rows)


def results_json() -> str:
    """Return every record of results.json with its fields."""
    schema = Results.model_json_schema(mode="serialization", by_alias=True)
    parts = [f"[Download the JSON Schema]({SCHEMA})", _record("results.json", schema)]
    parts += [_record(name, record) for name, record in schema["$defs"].items()]
    return "\n\n".join(parts)


def _record(name: str, record: dict[str, Any]) -> str:
    summary = record["description"].split("\n")[0]
    rows = [
        [f"`{field}`", _type(declared), declared.get("description", "")]
        for field, declared in record["properties"].items()
    ]
    return "\n\n".join([f"## {name}", summary, _table(["field", "type", "meaning"], rows)])


def _type(declared: dict[str, Any]) -> str:
    """Return a type of the JSON Schema in words; records are links to their tables."""
    if "$ref" in declared:
        name = declared["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in declared:
        return " or ".join(_type(one) for one in declared["anyOf"])
    if "prefixItems" in declared:
        return f"list of {len(declared['prefixItems'])}: {_type(declared['prefixItems'][0])}"
    if "items" in declared:
        return f"list of {_type(declared['items'])}"
    if isinstance(declared.get("additionalProperties"), dict):
        return f"by name: {_type(declared['additionalProperties'])}"
    return str(declared.get("const", declared.get("type", "any")))


def settings() -> str:
    """Return every setting of an evaluation: as an option, as a keyword, with its default."""
    declared = sorted(
        fields_of(EvaluateSettings).values(), key=lambda field: GROUPS.index(field.option.group)
    )
    rows = [
        [
            f"`{_option(field)}`",
            f"`{field.name}`",
            field.option.group,
            f"{field.option.help} {field.option.python}".strip(),
            f"`{field.default!r}`" if field.default or type(field.default) is int else "",
        ]
        for field in declared
    ]
    return _table(["option", "keyword", "group", "meaning", "default"], rows)


def _option(field: Field) -> str:
    if field.option.is_argument:
        return field.option.metavar or field.name
    return field.option.flags[0] if field.option.flags else f"--{field.name.replace('_', '-')}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def scores() -> str:
    """Return every score as it is declared."""
    rows = [
        [
            f"`{score.name}`",
            score.symbol,
            score.meaning,
            score.unit,
            "higher" if score.higher_is_better else "lower",
            ", ".join(score.needs),
            "yes" if score.can_gate else "no",
        ]
        for score in DECLARED
    ]
    head = ["name", "symbol", "meaning", "unit", "better", "needs", "`--fail-under`"]
    return _table(head, rows)


def networks() -> str:
    """Return the networks that can be trained by name, with what their docstrings say first."""
    rows = [[f"`{name}`", (NETWORKS[name].__doc__ or "").split("\n")[0]] for name in NETWORKS]
    return _table(["architecture", "what it is"], rows)


def commands() -> str:
    """Return every command with its arguments and options."""
    add_separate_commands()
    return "\n\n".join(_commands("eyechart", get_command(app)))


def _commands(name: str, command: Any) -> Iterable[str]:
    """Yield the section of a command, or of a group and of its commands."""
    subcommands = getattr(command, "commands", {})
    if subcommands:
        if name != "eyechart":
            yield f"{'#' * len(name.split())} `{name}`"
            yield command.help or ""
        for subname, subcommand in subcommands.items():
            yield from _commands(f"{name} {subname}", subcommand)
        return
    yield f"{'#' * len(name.split())} `{name}`"
    yield (command.help or "").replace("\f", "").strip()
    rows = [_parameter_row(one) for one in command.params if one.name != "help"]
    yield _table(["argument or option", "meaning", "default"], rows)


def _parameter_row(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        flags = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        flags = ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))
    repeated = getattr(parameter, "multiple", False) or parameter.nargs == -1
    meaning = " ".join((parameter.help or "").split())
    meaning += " *Can be repeated.*" if repeated and "repeatable" not in meaning else ""
    meaning += " *Required.*" if parameter.required else ""
    return [flags, _cell(meaning.strip()), _cell(_default(parameter.default))]


def _default(value: Any) -> str:
    # a flag that is off, an empty list and None all mean: not given
    if value is None or value is False or value is ... or callable(value) or value in ((), [], ""):
        return ""
    value = getattr(value, "value", value)
    return f"`{'yes' if value is True else value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def contributing() -> str:
    """Return CONTRIBUTING.md with links that hold in the folder of the documentation."""
    path = Path(__file__).parent.parent / "CONTRIBUTING.md"
    return path.read_text(encoding="utf-8").replace("](docs/", "](")


TABLES: dict[str, Callable[[], str]] = {
    "corruptions": corruptions,
    "suites": suites,
    "not monotone": not_monotone,
    "scores": scores,
    "results.json": results_json,
    "settings": settings,
    "networks": networks,
    "commands": commands,
    "contributing": contributing,
}
