"""Help texts of commands: plain aligned lines that fit the terminal, with examples at the end.

Typer's boxes take a third of the width, so a group is shown as a title and a line for each option.
Commands with many options show the main options with --help and all options with --help-all.
"""

import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from eyechart.cli.shared.derived_options import Decorated
from eyechart.core.errors import UsageError
from eyechart.core.options import GROUPS
from eyechart.core.phrases import count_of
from eyechart.core.registry import near_names, one_of, shortened

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter, Parameter

HELP_ALL = "--help-all"
MANY_OPTIONS = 20
"""Commands with more options than this show the advanced ones only with --help-all."""

MAX_WIDTH, MIN_WIDTH = 100, 40
MAX_NAME_WIDTH = 22
"""Maximum width of an option name; a longer name is printed on a line above the help text."""

METAVARS = {int: "INT", float: "FLOAT", str: "NAME", Path: "PATH", bool: ""}
OTHER_OPTIONS = "Options"

Commands = Mapping[str, Callable[..., None] | typer.Typer]
"""Commands, and groups of commands, by name."""

Entry = tuple[str, str]
"""An entry of a help text: the name of an option or command, and its description."""


class HelpCommand(TyperCommand):
    """A command that formats its own help."""

    @property
    def examples(self) -> tuple[str, ...]:
        """The examples that the command was declared with."""
        return getattr(self.callback, "examples", ())

    def get_help_option_names(self, ctx: "Context") -> list[str]:
        """Return the options that show help; short commands also accept --help-all."""
        return [*super().get_help_option_names(ctx), HELP_ALL]

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse the command line, and record which of --help and --help-all was typed."""
        ctx.meta[HELP_ALL] = HELP_ALL in args
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer's error for an unknown option has no public class; only it has this attribute
            if not hasattr(error, "possibilities"):
                raise
            name = str(getattr(error, "option_name", ""))
            raise _unknown_option(name, self.params, f"{ctx.command_path} {HELP_ALL}") from None

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the help text."""
        hidden: set[str] = set()
        if len(self.params) > MANY_OPTIONS and not ctx.meta.get(HELP_ALL):
            hidden = getattr(self.callback, "advanced", hidden)
        shown = [param for param in self.params if param.name not in hidden]
        sections = _option_sections(shown, self.callback)
        usage = " ".join([ctx.command_path, "[OPTIONS]", *map(_usage, _arguments(self.params))])
        lines = [*_opening(usage, self.help), *_section_lines(sections)]
        if self.examples:
            lines += ["", _title("Examples"), *_example_lines(self.examples)]
        if hidden:
            lines += ["", f"{count_of(len(hidden), 'more option')}: {ctx.command_path} {HELP_ALL}"]
        formatter.write("\n".join(lines) + "\n")


class HelpGroup(TyperGroup):
    """A group of commands that formats its own help, with commands under headings."""

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the help text."""
        sections: dict[str, list[Entry]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                heading = heading if isinstance(heading, str) else "Commands"
                first = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
                sections.setdefault(heading, []).append((name, first))
        # Typer's own --help is not among the params
        sections |= _option_sections(self.params)
        lines = _opening(f"{ctx.command_path} COMMAND [OPTIONS]", self.help)
        lines += [*_section_lines(sections), ""]
        lines += wrap(
            f"Options and examples of a command: {ctx.command_path} COMMAND --help", _width()
        )
        formatter.write("\n".join(lines) + "\n")


class CommandLine(typer.Typer):
    """A group of commands, all of which format their own help."""

    def __init__(self, commands: Commands = MappingProxyType({}), **options: Any) -> None:
        super().__init__(cls=HelpGroup, no_args_is_help=True, **options)
        self.add(commands)

    def add(self, commands: Commands, heading: str | None = None) -> None:
        """Add commands and groups of commands by name, under a heading of the help."""
        for name, command in commands.items():
            if isinstance(command, typer.Typer):
                self.add_typer(command, name=name, rich_help_panel=heading)
            else:
                self.command(name, rich_help_panel=heading)(command)

    def command(self, *arguments: Any, **options: Any) -> Callable[[Decorated], Decorated]:
        """Return a decorator that adds a command, like Typer's own `command`."""
        return super().command(*arguments, **{"cls": HelpCommand, **options})

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run a command line, like Typer's own call, which builds all commands anew each time."""
        return self._built(*arguments, **options)

    def add_typer(self, *arguments: Any, **options: Any) -> None:
        """Add a group of commands, like Typer's own; commands that were built are built anew."""
        self.__dict__.pop("_built", None)
        super().add_typer(*arguments, **options)

    @cached_property
    def _built(self) -> "Command":
        return get_command(self)


def _unknown_option(name: str, params: "Iterable[Parameter]", help_command: str) -> UsageError:
    """Return the error for an unknown option, with close options that are not hidden."""
    shown = [param for param in params if not getattr(param, "hidden", False)]
    flags = [flag for param in shown for flag in (*param.opts, *param.secondary_opts)]
    # without hyphens, in which all options agree
    known = [flag[2:] for flag in (*flags, "--help", HELP_ALL) if flag.startswith("--")]
    near = [f"'--{other}'" for other in near_names(name[2:], known)]
    hint = f"Did you mean {one_of(near)}?" if near else f"See {help_command}."
    return UsageError(f"Unknown option '{shortened(name)}'. {hint}")


def _opening(usage: str, text: str | None) -> list[str]:
    lines = wrap(f"Usage: {usage}", _width(), subsequent_indent=" " * 7, break_on_hyphens=False)
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        lines += ["", *wrap(paragraph, _width(), break_on_hyphens=False)]
    return lines


def _option_sections(
    params: "Iterable[Parameter]", function: Callable[..., object] | None = None
) -> dict[str, list[Entry]]:
    """Return the help entries of arguments and options by group, in the order of the groups.

    `function` is annotated with the types of the options.
    """
    annotations = {} if function is None else function.__annotations__
    params = [param for param in params if not getattr(param, "hidden", False)]
    sections = {}
    arguments = _arguments(params)
    if arguments:
        sections["Arguments"] = [(_usage(param), _text(param)) for param in arguments]
    by_group: dict[str, list[Entry]] = {}
    for param in params:
        if param not in arguments:
            group = getattr(param, "rich_help_panel", None) or OTHER_OPTIONS
            entry = _option_name(param, annotations.get(str(param.name))), _text(param)
            by_group.setdefault(group, []).append(entry)
    order = [*GROUPS, *(group for group in by_group if group not in GROUPS)]
    return sections | {group: by_group[group] for group in order if group in by_group}


def _arguments(params: "Iterable[Parameter]") -> "list[Parameter]":
    return [param for param in params if param.param_type_name == "argument"]


def _usage(argument: "Parameter") -> str:
    """Return an argument as shown in the usage line: FILE, [FILE], FILE... or [FILE]..."""
    # metavars may have brackets and dots, which are added again in one style
    name = (argument.metavar or str(argument.name).upper()).strip("[]….")
    name = name if argument.required else f"[{name}]"
    return name if argument.nargs == 1 else f"{name}..."


def _option_name(option: "Parameter", annotation: object) -> str:
    """Return an option as shown in help: flags, short ones first, and a value placeholder."""
    short = [flag for flag in option.opts if not flag.startswith("--")]
    # further long ones are former names, which still work
    long = [flag for flag in option.opts if flag.startswith("--")][:1]
    names = ", ".join([*short, *long])
    if getattr(option, "is_flag", False):
        return "/".join([names, *option.secondary_opts[:1]])
    return f"{names} {option.metavar or _metavar(annotation)}".rstrip()


def _metavar(annotation: object) -> str:
    """Return the placeholder for a value of this type, or for one item if it is a list."""
    if get_origin(annotation) in (Annotated, list, Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        return _metavar(kinds[0])
    return METAVARS.get(annotation, "NAME") if isinstance(annotation, type) else "NAME"


def _text(param: "Parameter") -> str:
    """Return the help of an argument or option, followed by its default unless that is empty."""
    text = str(getattr(param, "help", None) or "")
    if param.required:
        # the usage line already shows which arguments are required
        return text if param.param_type_name == "argument" else f"{text} [required]".strip()
    default = _default(param)
    # non-breaking spaces keep a short default on one line
    space = " " if len(default) > MAX_NAME_WIDTH else "\xa0"
    return f"{text} [default:{space}{default}]" if default else text


def _default(param: "Parameter") -> str:
    value = param.default
    if isinstance(value, bool):
        names = param.opts if value else param.secondary_opts
        return names[0].lstrip("-") if param.secondary_opts else ""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None or callable(value) else str(value)


def _section_lines(sections: dict[str, list[Entry]]) -> Iterator[str]:
    """Yield the lines of all sections, with all texts starting in the same column."""
    limit = min(MAX_NAME_WIDTH, _width() // 3)
    names = [name for entries in sections.values() for name, _ in entries if len(name) <= limit]
    column = max(map(len, names), default=limit) + 4
    for title, entries in sections.items():
        yield ""
        yield _title(title)
        for name, text in entries:
            lines = wrap(text, _width() - column, break_on_hyphens=False)
            if not lines or len(name) + 4 > column:
                yield f"  {name}"
            else:
                yield f"{f'  {name}':{column}}{lines.pop(0)}".replace("\xa0", " ")
            # only now, because `wrap` must not break lines at non-breaking spaces
            yield from (f"{'':{column}}{line}".replace("\xa0", " ") for line in lines)


def _example_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the examples; a long example is continued after a backslash."""
    for example in lines:
        parts = wrap(
            example,
            _width() - 4,
            subsequent_indent=" " * 4,
            break_on_hyphens=False,
            break_long_words=False,
        )
        # a line that needs no backslash after it may take the full width of the terminal
        parts = [example] if len(example) <= _width() - 2 else parts
        yield from (f"  {part} \\" for part in parts[:-1])
        yield f"  {parts[-1]}"


def _title(text: str) -> str:
    is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR")
    return text if is_plain else typer.style(text, bold=True)


def _width() -> int:
    """Return the width of the terminal, or the value of COLUMNS; 80 in a pipe."""
    return max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size().columns))
