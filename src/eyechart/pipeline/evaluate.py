"""`evaluate`: from models and a folder of pictures to R_a, R_p, HMRI and MRSI per corruption."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eyechart.core.arguments import as_flag, as_path, as_paths
from eyechart.core.devices import find_device
from eyechart.core.progress import NoProgress, Progress
from eyechart.core.registry import unknown_name
from eyechart.humans.transfer import PUBLISHED
from eyechart.images.imageset import ImageSet
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.pipeline.baseline import with_baseline
from eyechart.pipeline.examples import keep_examples
from eyechart.pipeline.loading import find_source
from eyechart.pipeline.prepare import prepare
from eyechart.pipeline.score import answered, score_run
from eyechart.pipeline.self_test import self_test
from eyechart.pipeline.task import Task
from eyechart.predictions.engine import part_files, predict
from eyechart.results.schema import Results
from eyechart.scores.scoring import Fit
from eyechart.testsets.plan import Plan, names_of

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def evaluate(
    model: Any,
    images: str | os.PathLike[str] | ImageSet,
    suite: str = "vcr",
    n: int = 50_000,
    *,
    seed: int = 0,
    sampling: str = "paper",
    corruptions: Sequence[str] = (),
    labels: str = "native",
    balanced: bool = True,
    rule: str = "max",
    humans: Paths | None = "geirhos",
    stimulus: str = "224",
    definition: str = "vcr",
    delta_v: tuple[float, float] = (0.0, 1.0),
    testset: str | None = None,
    device: str = "cpu",
    batch: int | None = None,
    match_choices: bool = False,
    clean_responses: str | None = None,
    jpeg: int | None = None,
    pictures: int | None = None,
    clean: str | os.PathLike[str] | None = None,
    baseline: Any = "auto",
    similar: Paths = PUBLISHED,
    out: str | os.PathLike[str] | None = None,
    **fit: Any,
) -> Results:
    """Return how robust models are: R_a, R_p, and HMRI and MRSI next to people, per corruption.

    `model`: a name, `module:attribute`, a file, a module or a callable, or a list of these, which
    then share one pass. `images`: a class folder, a manifest, or an ImageSet; or a folder with
    ImageNet-C's or CIFAR-10-C's own files, for which `clean` is the place of the clean pictures.
    `n`: pictures per corruption. `pictures`: use so many pictures only, as many of every class.
    `labels`: "native", "entry16" or "none". `jpeg`: the quality at which corrupted pictures are
    stored and read back; ImageNet-C's are at 85. `out`: where predictions are kept, so that
    a run that was stopped goes on; otherwise they are dropped. `baseline`: whose errors CE divides
    by: "alexnet" and such, a model as above, "people", or None. `definition`: of visual change,
    "vcr" or "sheikh2006"; only "vcr" has humans to compare with. `clean_responses`: which response
    to the clean image humans' are compared with for consistency: "given", "majority" or "random".
    `humans`: the human reference, by name or file, or several in order of precedence; `similar`:
    within which classes of corruptions human responses are transferred: "published", "none" or
    files. `fit`: see `Fit`.
    """
    for name, path in (("out", out), ("clean", clean)):
        if path is not None:
            as_path(path, name)
    humans = None if humans is None else _as_text(humans, "humans")
    similar = _as_text(similar, "similar")
    balanced = as_flag(balanced, "balanced")
    plan = Plan(
        suite, n, seed, sampling, labels, balanced, definition, names_of(corruptions), delta_v,
        jpeg, pictures,
    )  # fmt: skip
    task = Task(
        plan, _fit(fit), rule, humans, testset, batch, match_choices,
        clean_responses=clean_responses, similar=similar,
    )  # fmt: skip
    source = find_source(images, stimulus, clean, out)
    task = source.task(task)
    task.check()
    where = find_device(device)
    given = list(model) if isinstance(model, list | tuple) else [model]

    def load(each: Any) -> Model:
        return each if isinstance(each, Model) else load_model(each, where)

    models, divisor = with_baseline([load(each) for each in given], baseline, load)
    task = replace(task, baseline=divisor)
    own = source.load(task.plan, NoProgress())
    if out is not None:
        return run_task(task, models, own, where, Path(out), NoProgress())
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        # what is kept to be looked at would be dropped with the folder
        found = run_task(task, models, own, where, Path(folder), NoProgress())
        return found.model_copy(update={"examples": ()})


def _as_text(given: Paths, name: str) -> str | list[str]:
    """Return one name or path, or each of several, as text, which results can hold."""
    texts = [os.fspath(each) for each in as_paths(given, name)]
    return texts[0] if isinstance(given, str | os.PathLike) else texts


def _fit(given: dict[str, Any]) -> Fit:
    known = Fit.__dataclass_fields__
    for name in given:
        if name not in known:
            raise unknown_name("argument", name, known)
    return Fit(**given)


def run_task(
    task: Task,
    models: Sequence[Model],
    images: ImageSet,
    device: torch.device,
    out: Path,
    progress: Progress,
) -> Results:
    """Predict what is missing in `out` and score all of it."""
    job, folder = prepare(task, models, images, device, out, progress)
    doubts = self_test(models, images, progress)
    count = sum(map(len, job.groups))
    predict(job, folder, progress.begin("predictions", count))
    scored = score_run(task, job, folder, progress)
    changes = {
        "examples": keep_examples(job, answered(task, job, folder), out),
        "warnings": (*doubts, *scored.warnings, *part_files(job, folder).notes()),
    }
    return scored.model_copy(update=changes)
