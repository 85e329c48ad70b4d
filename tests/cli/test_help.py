"""Help reads at 80 columns: groups in order, a line or two per option, examples that parse."""

import re
import shlex
import subprocess
import sys

import pytest
import typer

from eyechart.cli.app import app
from eyechart.cli.shared.help import HELP_ALL, MANY_OPTIONS
from eyechart.core.options import GROUPS


def walk(command, words=()):
    """Yield every command and group with the words that call it."""
    yield words, command
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from walk(subcommand, (*words, name))


EVERYTHING = dict(walk(typer.main.get_command(app)))
COMMANDS = {words: found for words, found in EVERYTHING.items() if not hasattr(found, "commands")}
LONG = [words for words, command in COMMANDS.items() if len(command.params) > MANY_OPTIONS]


@pytest.fixture
def help_of(run, monkeypatch):
    """A function that returns the lines of a command's help in a terminal of some width."""

    def lines(*words: str, columns: int = 80) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        result = run(*words)
        assert result.status == 0, result.err
        return result.out.splitlines()

    return lines


def titles(lines: list[str]) -> list[str]:
    """Return the titles of the sections: lines after an empty one, before an indented one."""
    return [
        line
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False)
        if not before and after.startswith("  ")
    ]


def shown_options(lines: list[str]) -> set[str]:
    """Return the options that have a line."""
    found = (re.match(r"  (?:-\w, )?(--[\w-]+)", line) for line in lines)
    return {match[1] for match in found if match}


def test_evaluate_fits_into_60_lines_of_80_columns(help_of):
    lines = help_of("evaluate", "--help")
    assert len(lines) <= 60
    assert re.fullmatch(r"\d+ more options: eyechart evaluate --help-all", lines[-1])


@pytest.mark.parametrize("words", EVERYTHING, ids=" ".join)
@pytest.mark.parametrize("columns", [60, 80])
def test_no_line_is_wider_than_the_terminal(help_of, words, columns):
    for line in help_of(*words, HELP_ALL if words in COMMANDS else "--help", columns=columns):
        assert len(line) <= columns, line
        assert not re.search(r"<\w", line), line
        assert "\x1b" not in line


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_all_shows_every_option_in_the_order_of_the_groups(help_of, words):
    lines = help_of(*words, HELP_ALL)
    options = [param for param in COMMANDS[words].params if param.param_type_name == "option"]
    longest = {next(name for name in own.opts if name.startswith("--")) for own in options}
    assert shown_options(lines) >= longest
    groups = [title for title in titles(lines) if title in GROUPS]
    assert groups == sorted(groups, key=GROUPS.index)
    assert "more options" not in lines[-1]


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_long_commands_count_what_they_hide(help_of, words):
    main, every = help_of(*words, "--help"), help_of(*words, HELP_ALL)
    n_hidden = len(shown_options(every)) - len(shown_options(main))
    assert n_hidden > 0
    assert main[-1] == f"{n_hidden} more options: eyechart {' '.join(words)} {HELP_ALL}"
    required = [
        own.opts[0] for own in COMMANDS[words].params if own.required and own.opts[0][0] == "-"
    ]
    assert shown_options(main) >= set(required)


@pytest.mark.parametrize("words", [("compare",), ("list", "suites")], ids=" ".join)
def test_short_commands_show_everything(help_of, words):
    assert help_of(*words, "--help") == help_of(*words, HELP_ALL)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_two_examples_that_parse(help_of, words):
    command = COMMANDS[words]
    assert len(command.examples) == 2
    for example in command.examples:
        typed = shlex.split(re.split(r" [|>] ", example)[0])
        assert tuple(typed[: len(words) + 1]) == ("eyechart", *words)
        # reads and converts every value, without running the command
        command.make_context(words[-1], typed[len(words) + 1 :])
        assert f"  {example}" in help_of(*words, "--help")


def test_the_map_is_in_the_order_of_a_users_work(help_of):
    lines = help_of("--help")
    names = [match[1] for line in lines if (match := re.match(r"  ([a-z][\w-]*) ", line))]
    assert names == [
        "evaluate", "merge", "demo", "compare", "gate", "report", "corrupt", "gallery",
        "visual-change", "rulers", "list", "testset", "models", "humans", "experiment", "train",
        "overlap", "structure",
    ]  # fmt: skip
    assert len(titles(lines)) == 6


@pytest.mark.parametrize("words", [words for words in EVERYTHING if words], ids=" ".join)
def test_every_command_is_described_by_a_sentence(words):
    first = EVERYTHING[words].help.split("\n\n")[0]
    assert first[0].isupper() and first.endswith(".") and len(first.split()) < 20


def test_a_group_without_a_command_shows_its_help(run):
    result = run("overlap")
    assert result.status == 2
    assert result.out.startswith("Usage: eyechart overlap COMMAND") and result.out.count("\n") > 8


def test_help_imports_nothing_slow():
    code = (
        "import sys; sys.argv = ['eyechart', 'evaluate', '--help']\n"
        "from eyechart.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print({'torch', 'numpy', 'rich'} & set(sys.modules), file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "set()\n"
