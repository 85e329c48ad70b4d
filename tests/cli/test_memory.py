"""Memory runs out: one sentence that says what to reduce, exit status 1, and nothing is lost."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import small_models
from places import SUPPORT

LIMITED = """
import resource, sys
import eyechart.pipeline.evaluate, pyarrow.parquet, scipy.interpolate, torch
from eyechart.cli.app import main
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 2**20,) * 2)
main(sys.argv[2:])
"""
"""Run a command that may use so many MB more than its modules take."""


def limited(n_mb, *words):
    path = os.pathsep.join([str(SUPPORT), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, (n_mb, *words))],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def assert_out_of_memory(ended):
    sentence = ended.stderr.strip().splitlines()[-1]
    assert ended.returncode == 1, ended.stderr
    assert sentence.startswith("Out of memory") and "--batch-size" in sentence
    assert sentence.endswith("finished work is kept, and the same command resumes it.")
    assert "bug" not in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own memory use from /proc")
def test_an_evaluation_without_memory_ends_with_a_sentence_and_is_resumed(run, tmp_path):
    images = small_models.save_images(tmp_path / "images", each=2)
    words = ("evaluate", "small_models:colors", "--images", images, "--out", tmp_path / "out")
    words += ("--n", 40, "--bins", 6, "--min-per-bin", 3, "--humans", "none")
    assert_out_of_memory(limited(20, *words))
    assert run(*words).status == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own memory use from /proc")
def test_images_that_do_not_fit_into_memory_are_one_sentence(tmp_path):
    levels = np.random.default_rng(0).integers(0, 256, (2000, 3000, 3), dtype=np.uint8)
    Image.fromarray(levels).save(tmp_path / "large.png", compress_level=1)
    words = ("corrupt", tmp_path / "large.png", "--corruption", "gaussian_noise")
    assert_out_of_memory(limited(60, *words, "--severity", 3, "--out", tmp_path / "out"))
