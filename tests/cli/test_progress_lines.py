"""Progress in a log: a plain line every few seconds, since there is no terminal for a bar."""

import os
import re
import subprocess
import sys
import time

import pytest

from eyechart.cli.shared import progress
from eyechart.cli.shared.progress import ProgressBars, ProgressLines
from places import SUPPORT
from small_models import save_images

LINE = re.compile(r"([\w ]+): ([\d,]+) of ([\d,]+)(?:, ([\d,.]+)/s, (.+) left)?")
QUICKLY = """
import sys
from eyechart.cli.app import main
from eyechart.cli.shared import progress
progress.INTERVAL_S = 0.25
main(sys.argv[1:])
"""


def test_a_line_is_printed_at_least_every_ten_seconds():
    assert 0 < progress.INTERVAL_S <= 10


def test_a_run_without_a_terminal_prints_lines_with_count_rate_and_time_left(tmp_path):
    folder = save_images(tmp_path / "photos", each=2)
    words = ["evaluate", "small_models:slow_colors", "--images", folder, "--out", tmp_path / "out"]
    words += ["--n", 80, "--bins", 6, "--min-per-bin", 3, "--n-bootstrap", 20, "--stimulus"]
    words += ["native", "--corruption", "brightness", "--batch-size", 8]
    path = os.pathsep.join([str(SUPPORT), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", QUICKLY, *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, "SLOW": "0.2", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [match for line in done.stderr.splitlines() if (match := LINE.fullmatch(line))]
    predicted = [line for line in lines if line[1] == "predictions"]
    assert len(predicted) >= 3
    (total,) = {line[3] for line in predicted}
    counts = [int(line[2]) for line in predicted]
    assert counts == sorted(counts) and counts[-1] > counts[0]
    assert predicted[-1][4] and re.fullmatch(r"\d+ s", predicted[-1][5])
    last = rf"^predictions: {total} of {total}, finished after \d+ s$"
    assert re.search(last, done.stderr, re.MULTILINE)
    # bars, colors and cursor movements belong to terminals
    assert "\x1b" not in done.stderr and "\r" not in done.stderr


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL_S", 0.05)


def test_the_first_line_comes_though_no_step_is_done(quick, capsys):
    with ProgressBars() as bars:
        bars.begin("images", 1200)
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2 and set(lines) == {"images: 0 of 1,200"}


def test_short_work_prints_messages_only(capsys):
    with ProgressBars() as bars:
        step = bars.begin("images", 2)
        step(2, "An image was left out.")
    assert capsys.readouterr().err == "An image was left out.\n"


def test_work_of_an_earlier_run_does_not_count_towards_the_rate(monkeypatch):
    now = iter([0.0, 1.0, 11.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    lines = ProgressLines("predictions", 10_000)
    lines.advance(9_000, "")
    assert lines.line() == "predictions: 9,000 of 10,000"
    lines.advance(50, "")
    assert lines.line() == "predictions: 9,050 of 10,000, 5.0/s, 3 min 10 s left"


def test_stopped_work_is_not_called_finished(quick, capsys):
    with pytest.raises(KeyboardInterrupt), ProgressBars() as bars:
        step = bars.begin("predictions", 10)
        step(4, "")
        time.sleep(0.2)
        raise KeyboardInterrupt
    said = capsys.readouterr().err
    assert "4 of 10" in said and "finished" not in said
