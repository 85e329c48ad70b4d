"""One side of `python -m benchmarks against`: measures the eyechart that `PYTHONPATH` names.

It reads names of tasks from standard input, and writes a line of JSON for each. It uses public
names and commands only, because it also measures commits whose modules lie elsewhere.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import eyechart as ec

Task = Callable[[], object]

SHORTEST = 0.2
"""Minimum number of seconds for which a task is repeated."""

SIDE = 224
"""Width and height of images in pixels."""

BATCH, N_REGISTERED = 16, 4
N_SCORED = 1000
"""Number of images and of samples per corruption that are scored."""

SCORED = ("gaussian_noise", "impulse_noise", "brightness")
"""Corruptions that are scored; all 14 would take long to predict."""

GEOMETRIC = ("geometry/rotate", "geometry/scale", "geometry/shear")
"""Corruptions that registration undoes."""


def importing(device: str, folder: Path, n: int) -> dict[str, Task]:
    """Return processes that only import; the peak memory is that of the largest one."""
    code = {
        "import eyechart": "import eyechart",
        "all public names": "import eyechart as ec; [getattr(ec, name) for name in ec.__all__]",
    }
    tasks: dict[str, Task] = {name: _python("-c", text) for name, text in code.items()}
    return tasks | {"eyechart --help": _python("-m", "eyechart", "--help")}


def _python(*words: str) -> Task:
    return lambda: subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)


def corrupting(device: str, folder: Path, n: int) -> dict[str, Task]:
    """Return every corruption of ImageNet-C on a batch, with one thread."""
    images = _images(device)
    extra = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
    names = (*ec.list_corruptions("imagenet-c"), *extra)
    return _warm({name: _on(device, ec.corrupt, images, name, severity=3) for name in names})


def registering(device: str, folder: Path, n: int) -> dict[str, Task]:
    """Return the measurement of Δv after registration of moved images, and without it."""
    images = _images(device)[:N_REGISTERED]
    tasks: dict[str, Task] = {}
    for name in GEOMETRIC:
        moved = ec.corrupt(images, name, severity=3)
        tasks[f"vif-human, {name}"] = _on(device, ec.delta_v, images, moved, ruler="vif-human")
    noisy = ec.corrupt(images, "gaussian_noise", severity=3)
    tasks["vif, gaussian_noise"] = _on(device, ec.delta_v, images, noisy)
    return _warm(tasks)


def _images(device: str) -> Any:
    """Return images of the shared benchmarks; from here on, one thread computes."""
    import cv2
    import torch

    from benchmarks.timing import sample_images

    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    return sample_images(BATCH, SIDE).to(torch.device(device))


def _on(device: str, function: Callable[..., object], *given: object, **named: object) -> Task:
    def run() -> None:
        function(*given, **named)
        if device != "cpu":
            import torch

            torch.cuda.synchronize()

    return run


def _warm(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Run everything once, because first calls import and compile."""
    for task in tasks.values():
        task()
    return dict(tasks)


def scoring(device: str, folder: Path, n: int) -> dict[str, Task]:
    """Return scoring of finished predictions, which the first round makes, and a large curve."""
    import numpy as np

    images = _image_files(folder / "images")
    out = folder / "run"
    # The model guesses, for which commits that check labels stop a run.
    name = "accept_labels"
    accepted: dict[str, Any] = {name: True} if name in signature(ec.evaluate).parameters else {}

    def score() -> object:
        # All predictions are there, so that a second evaluation only scores them.
        return ec.evaluate(
            _toy_model(), images, n=N_SCORED, corruptions=SCORED, out=out, **accepted
        )

    numbers = np.random.default_rng(0)
    change = numbers.random(50_000)
    hits = (numbers.random(50_000) < 0.9 - 0.8 * change).astype(float)
    image = numbers.integers(0, 5_000, 50_000)

    def fit() -> object:
        return ec.fit_curve(change, hits, clusters=image, all_clusters=np.arange(5_000))

    if not (out / "results.json").exists():
        score()
    return _warm({"evaluate, predictions finished": score, "curve of 50,000 samples": fit})


def _image_files(folder: Path) -> Path:
    """Write small labeled images, unless they are there already; return their list."""
    from PIL import Image

    from benchmarks.timing import sample_images

    listed = folder / "images.csv"
    if not listed.exists():
        folder.mkdir()
        rows = ["path,label"]
        for place, image in enumerate(sample_images(N_SCORED, 32).permute(0, 2, 3, 1).numpy()):
            Image.fromarray(image).save(folder / f"{place:04d}.png")
            rows.append(f"{place:04d}.png,{place % 1000}")
        listed.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return listed


def _toy_model() -> Any:
    """Return a model that takes no time: 1,000 fixed sums of an image's mean colors."""
    import torch

    generator = torch.Generator().manual_seed(0)
    layers = [torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 1000)]
    model = torch.nn.Sequential(*layers)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def looping(device: str, folder: Path, n: int) -> dict[str, Task]:
    """Return a whole evaluation of the demo images, with few replicates.

    On the CPU of a model that takes no time; on a GPU of a ResNet-50, because there the loop has to
    hide its work behind the model's.
    """
    import shutil

    from benchmarks.resnet50 import ResNet50

    model = _toy_model() if device == "cpu" else ResNet50()

    def evaluate(n: int) -> None:
        out = folder / "run"
        shutil.rmtree(out, ignore_errors=True)
        ec.evaluate(model, n=n, device=device, n_bootstrap=10, humans="none", out=out)

    evaluate(1)
    return {"evaluate": partial(evaluate, n)}


PARTS: Mapping[str, Callable[[str, Path, int], dict[str, Task]]] = {
    "import": importing,
    "corruptions": corrupting,
    "registration": registering,
    "scoring": scoring,
    "loop": looping,
}


def measure(task: Task) -> dict[str, float]:
    """Return seconds per call, and seconds of all cores; short tasks are repeated."""
    start, cpu_start = time.perf_counter(), _cpu_seconds()
    calls = 0
    while not calls or time.perf_counter() - start < SHORTEST:
        task()
        calls += 1
    cpu = _cpu_seconds() - cpu_start
    return {"s": (time.perf_counter() - start) / calls, "CPU s": cpu / calls}


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_memory() -> float:
    """Return the largest resident memory of this process and of any it started, in MiB."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        # Not `ru_maxrss`, which begins with the size of the process that started this one.
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        own = int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return max(own, children) / (1024 if sys.platform != "darwin" else 1024**2)


def main(part: str, folder: str, device: str, n: str) -> None:
    """Prepare the tasks of a part, and measure those that standard input names."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Whatever a task prints is no reply.
    os.dup2(2, 1)
    kept = Path(folder)
    kept.mkdir(exist_ok=True)
    tasks = PARTS[part](device, kept, int(n))
    _reply(replies, {"package": str(ec.__file__), "tasks": list(tasks)})
    for line in sys.stdin:
        task = tasks.get(line.strip())
        _reply(replies, {"MiB": peak_memory()} if task is None else measure(task))


def _reply(replies: Any, values: Mapping[str, object]) -> None:
    replies.write(json.dumps(values) + "\n")
    replies.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
