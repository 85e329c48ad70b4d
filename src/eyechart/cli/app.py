"""The `eyechart` command: assembles the subcommands and reports errors in one sentence."""

import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import NoReturn

import typer

from eyechart.cli import (
    compare,
    corrupt,
    evaluate,
    gallery,
    gate,
    humans,
    listing,
    models,
    report,
    rulers,
    structure,
    testset,
    train,
    visual_change,
)
from eyechart.cli.overlap import benchmarks, calibrate, matrices, run, select
from eyechart.cli.shared.help import HELP_ALL, CommandLine
from eyechart.cli.shared.printing import print_image_notes
from eyechart.cli.shared.stop import BROKEN_PIPE, BUG, FAILED, INTERRUPTED, USAGE, Stop
from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.core.process import interrupted_status, stop_on_termination
from eyechart.core.version import __version__

app = CommandLine(
    name="eyechart",
    help="An eye chart for vision models: how well does a model see as an image degrades?",
    add_completion=False,
    pretty_exceptions_enable=False,
)
overlap = CommandLine(
    help="Find corruptions that overlap, and benchmarks without overlap.",
    commands={
        "run": run.run,
        "matrix": matrices.matrix,
        "select": select.select,
        "plot": matrices.plot,
        "compare": matrices.compare,
        "calibrate": calibrate.calibrate,
        "balance": benchmarks.balance,
        "coverage": benchmarks.coverage,
    },
)
HUMANS = "Human reference"
# in the order of a user's work, which is also the order of the headings in help
app.add(
    {
        "evaluate": evaluate.evaluate,
        "merge": evaluate.merge,
        "demo": evaluate.demo,
        "compare": compare.compare,
        "gate": gate.gate,
        "report": report.report,
    },
    "Evaluation",
)
app.add(
    {
        "corrupt": corrupt.corrupt,
        "gallery": gallery.gallery,
        "visual-change": visual_change.visual_change,
        "rulers": rulers.app,
        "list": listing.app,
    },
    "Corruptions",
)
app.add({"testset": testset.app, "models": models.app}, "Test sets and models")
app.add({"humans": humans.app}, HUMANS)
app.add(
    {"train": train.app, "overlap": overlap, "structure": structure.app}, "Training and studies"
)


COMMANDS = "eyechart.commands"
"""Entry points of distributions that add a group of commands."""

SEPARATE = {"experiment": "eyechart-experiment"}
"""Groups of commands that are distributed separately."""


def add_separate_commands() -> None:
    """Add the groups of `SEPARATE` whose distributions are installed and that are not there yet."""
    present = {group.name for group in app.registered_groups}
    for entry in entry_points(group=COMMANDS):
        if entry.name in SEPARATE and entry.name not in present:
            app.add({entry.name: entry.load()}, HUMANS)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eyechart {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Handle the options of `eyechart` itself, which precede a subcommand."""


def main(arguments: Sequence[str] | None = None, command: typer.Typer = app) -> NoReturn:
    """Run a command and exit, with status 0 or one of the statuses in `cli/shared/stop.py`.

    SIGTERM stops the command in the same way as Ctrl-C, but with exit status 143.
    """
    for stream in (sys.stdout, sys.stderr):
        # a terminal without Greek shows question marks, not a failure
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # only as a program: a caller that gives arguments keeps its handlers and filters
    if arguments is None:
        stop_on_termination()
        # problems with image files are reported in eyechart's own messages where they matter
        warnings.filterwarnings("ignore", module=r"PIL\.")
    status = _run(arguments, command)
    if status == INTERRUPTED and arguments is None:
        # let running threads finish, however often Ctrl-C is pressed
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        status = interrupted_status()
    sys.exit(status)


def _run(arguments: Sequence[str] | None, command: typer.Typer) -> int:
    typed = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if command is app:
            _add_named_commands(typed)
        with print_image_notes():
            # in standalone mode Typer would print errors in its own format and exit; commands read
            # `obj` to store the command line in their results
            status = command(typed, prog_name="eyechart", standalone_mode=False, obj=typed)
    except Stop as stop:
        return _say(str(stop), stop.status)
    except UsageError as error:
        if os.environ.get("EYECHART_DEBUG"):
            raise
        return _say(str(error), USAGE)
    # after UsageError, because a WriteError is both
    except OSError as error:
        if is_out_of_memory(error):
            return _explain(error)
        reason = error.strerror or str(error)
        return _say(f"{error.filename}: {reason}." if error.filename else f"{reason}.", USAGE)
    except KeyboardInterrupt:
        return _say("Stopped.", INTERRUPTED)
    except SystemExit:
        # raised only when the reader of a pipe has gone
        return BROKEN_PIPE
    except Exception as error:
        return _explain(error)
    if status == INTERRUPTED:
        return _say("Stopped.", INTERRUPTED)
    return status if isinstance(status, int) else 0


def _add_named_commands(typed: list[str]) -> None:
    """Add separate groups if one is called or help lists them; otherwise they are not imported."""
    word = typed[0] if typed else "--help"
    if word in ("--help", HELP_ALL, *SEPARATE):
        add_separate_commands()
    if word in SEPARATE and word not in {group.name for group in app.registered_groups}:
        raise UsageError(
            f"eyechart {word} is not installed: run  pip install {SEPARATE[word]}  first."
        )


def _explain(error: Exception) -> int:
    """Print what a user can do, or report a bug; return the exit status."""
    # Typer's usage errors have no common public class over its versions, but all have this.
    message = getattr(error, "format_message", None)
    if message is not None and type(error).__name__ == "NoArgsIsHelpError":
        # a group without a command: its message is the help text, which keeps its lines
        print(message())
        return USAGE
    if message is not None:
        sentence = " ".join(str(message()).split())
        return _say(f"{sentence}." if sentence and sentence[-1] not in ".?" else sentence, USAGE)
    if os.environ.get("EYECHART_DEBUG"):
        raise error
    if is_out_of_memory(error):
        # the last line of a traceback is the error
        line = (str(error).strip().splitlines() or [""])[-1].strip().rstrip(".")
        reason = f" ({line})" if line not in ("", "MemoryError") else ""
        return _say(
            f"Out of memory{reason}: use a smaller --batch-size, fewer --workers, or fewer"
            " or smaller images; finished work is kept, and the same command resumes it.",
            FAILED,
        )
    failure = " ".join(f"{type(error).__name__}: {error}".split())
    return _say(
        f"This is a bug in eyechart ({failure}); please report it with the traceback that"
        " EYECHART_DEBUG=1 prints.",
        BUG,
    )


def _say(sentence: str, status: int) -> int:
    if sentence:
        print(sentence, file=sys.stderr)
    return status
