"""The wheels of both distributions in environments of their own, and what is in eyechart's."""

import os
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes

import numpy as np
import pytest
from PIL import Image

from browser import launched, opened, skip_without_browser
from places import ROOT
from wheels import build, names_in

TOP = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")


@pytest.fixture
def checkout(tmp_path):
    """A copy of what git has, as far as a build needs it."""
    pytest.importorskip("hatchling")
    folder = tmp_path / "checkout"
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=left_out)
    for name in TOP:
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name)
    return folder


def test_the_wheel_holds_every_file_of_the_package_and_needs_no_node(checkout):
    done = build(checkout)
    assert done.returncode == 0, done.stderr
    held = {name for name in names_in(checkout.parent / "dist") if ".dist-info/" not in name}
    source = checkout / "src"
    assert held == {str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()}


@pytest.mark.parametrize("url", ["", "https://example.org/team/eyechart"])
def test_links_of_the_description_lead_somewhere_or_are_left_out(checkout, monkeypatch, url):
    monkeypatch.setenv("REPOSITORY_URL", url)
    monkeypatch.setenv("REVISION", "v9")
    assert build(checkout).returncode == 0
    (wheel,) = checkout.parent.glob("dist/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = message_from_bytes(archive.read(name))
    description = str(metadata.get_payload())
    targets = re.findall(r"\]\(([^)]+)\)|src=\"([^\"]+)", description)
    relative = [one for pair in targets for one in pair if one and ":" not in one]
    assert "# eyechart" in description and not relative
    addresses = metadata.get_all("Project-URL") or []
    if url:
        assert f"({url}/raw/v9/docs/report.jpg)" in description
        assert addresses == [
            f"Repository, {url}",
            f"Documentation, {url}/blob/v9/docs/index.md",
            f"Changelog, {url}/blob/v9/CHANGELOG.md",
            f"Issues, {url}/issues",
        ]
    else:
        assert "report.jpg" not in description and not addresses


def free_environment():
    """The environment without any help of this checkout."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}


def call(*command, cwd):
    """Run a command without any help of this checkout, and return what it printed."""
    texts = [str(each) for each in command]
    done = subprocess.run(texts, cwd=cwd, env=free_environment(), capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(texts)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def save_photos(folder):
    chance = np.random.default_rng(0)
    for category in ("dog", "cat", "car", "clock"):
        (folder / category).mkdir(parents=True)
        for number in range(8):
            levels = chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(levels).resize((240, 240)).save(folder / category / f"{number}.png")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_wheel_of_a_fresh_clone_evaluates_reports_and_serves_a_study(tmp_path):
    skip_without_browser()
    pytest.importorskip("build")
    if shutil.which("npm") is None:
        pytest.skip("no npm, which builds the pages")
    clone = tmp_path / "clone"
    call("git", "clone", "--quiet", ROOT, clone, cwd=tmp_path)
    for folder in (clone, clone / "packages" / "experiment"):
        call(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", cwd=folder)
    wheel, separate = sorted(tmp_path.glob("dist/*.whl"))
    call(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    programs = tmp_path / "venv" / "bin"
    pip = (programs / "python", "-m", "pip")
    install = (*pip, "install", "--quiet", "-c", clone / "constraints.txt")
    call(*install, f"{wheel}[demo]", cwd=tmp_path)
    eyechart = programs / "eyechart"
    installed = call(*pip, "freeze", cwd=tmp_path).lower()
    assert not re.search(r"^(fastapi|sqlalchemy|uvicorn)\b", installed, re.MULTILINE)
    missing = subprocess.run(
        [eyechart, "experiment", "new"], env=free_environment(), capture_output=True, text=True
    )
    assert missing.returncode == 2
    assert missing.stderr.endswith("run  pip install eyechart-experiment  first.\n")
    call(*install, separate, cwd=tmp_path)
    shutil.rmtree(clone)
    small = ("--n", 24, "--corruption", "brightness", "--bins", 6, "--min-per-bin", 2)
    call(eyechart, "evaluate", "efficientnet_lite0", *small, "--out", "run", cwd=tmp_path)
    assert (tmp_path / "run" / "results.json").is_file()
    call(eyechart, "report", "run", "--out", "report.html", cwd=tmp_path)
    with launched() as browser, opened(browser, tmp_path / "report.html") as shown:
        assert "efficientnet_lite0" in shown.page.inner_text("body")
        assert shown.problems == []
    save_photos(tmp_path / "photos")
    few = ("--labels", "entry16", "--corruption", "brightness", "--n", 64, "--out", "t.parquet")
    call(eyechart, "testset", "make", "--images", "photos", *few, cwd=tmp_path)
    sizes = {"trials": 10, "practice": 4, "qualification": 4, "catch": 2, "k": 1, "clean-k": 1}
    options = [each for name, size in sizes.items() for each in (f"--{name}", size)]
    given = ("--testset", "t.parquet", "--images", "photos", "--contact", "lab@example.org")
    call(eyechart, "experiment", "new", "study", *given, *options, cwd=tmp_path)
    serve_and_open(eyechart, tmp_path)


def serve(eyechart, folder):
    """Start to serve the study, without any help of this checkout."""
    return subprocess.Popen(
        [eyechart, "experiment", "serve", "study", "--port", "0"],
        cwd=folder, env=free_environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


MAX_CORE_MB = 1600
"""An environment without extras; with builds of torch for a GPU, those are not counted."""

MEASURED = """
import sys, time
start = time.process_time()
import eyechart
imported = time.process_time() - start
ours = sorted(name for name in sys.modules if name.partition(".")[0] == "eyechart")
others = {"torch", "numpy", "scipy", "pydantic", "rich", "typer"} & set(sys.modules)
print(imported, *ours, *others)
"""


def test_importing_the_package_imports_nothing_else(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    seconds, *names = done.stdout.split()
    assert names == ["eyechart"]
    # of this process, because other processes share the machine
    assert float(seconds) < 0.1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_wheel_without_extras_is_small_and_starts_fast(checkout, tmp_path):
    assert build(checkout).returncode == 0
    (wheel,) = checkout.parent.glob("dist/*.whl")
    environment = tmp_path / "core"
    call(sys.executable, "-m", "venv", environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    call(python, *install, "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    accelerators = ("nvidia", "triton", "cuda")
    sizes = [
        path.stat().st_size
        for path in environment.rglob("*")
        if path.is_file() and not any(part.startswith(accelerators) for part in path.parts)
    ]
    assert sum(sizes) / 2**20 < MAX_CORE_MB
    # pip compiled all modules
    seconds, *names = call(python, "-c", MEASURED, cwd=tmp_path).split()
    assert names == ["eyechart"] and float(seconds) < 0.1
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "evaluate" in call(environment / "bin" / "eyechart", "--help", cwd=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5
    call(python, *install, "pytest", cwd=tmp_path)
    assert "robustness" in call(python, "-m", "pytest", "--fixtures", cwd=tmp_path)


@pytest.mark.parametrize("start", [call, serve])
def test_the_installed_wheel_runs_without_this_checkout_on_its_path(start, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    program = tmp_path / "eyechart"
    program.write_text("#!/bin/sh\necho ${PYTHONPATH-none}\n")
    program.chmod(0o755)
    if start is call:
        printed = call(program, cwd=tmp_path)
    else:
        printed, _ = serve(program, tmp_path).communicate()
    assert printed == "none\n"


def serve_and_open(eyechart, folder):
    """Serve the study and open its first page, in Chromium."""
    server = serve(eyechart, folder)
    try:
        address = server.stdout.readline().split()[-1]
        with launched() as browser:
            page = browser.new_page()
            page.goto(address)
            page.wait_for_selector('#app[data-screen="consent"]', timeout=30_000)
            page.click('[data-action="agree"]')
            page.click('[data-action="eyesight-normal"]')
            page.wait_for_selector('#app[data-screen="instructions"]', timeout=30_000)
    finally:
        server.terminate()
        server.communicate()
