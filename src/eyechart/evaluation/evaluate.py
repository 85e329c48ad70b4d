"""`evaluate`: from models and a folder of pictures to R_a, R_p, HMRI and MRSI per corruption."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eyechart.core.devices import find_device
from eyechart.core.registry import unknown_name
from eyechart.evaluation.baseline import with_baseline
from eyechart.evaluation.examples import keep_examples
from eyechart.evaluation.loading import find_source
from eyechart.evaluation.prepare import prepare
from eyechart.evaluation.score import answered, score_run
from eyechart.evaluation.task import Progress, Silent, Task
from eyechart.images.imageset import ImageSet
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.predictions.loop import predict
from eyechart.scores.evaluation import Evaluation
from eyechart.scores.scoring import Fit
from eyechart.testsets.drawing import Plan, names_of


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
    humans: str | None = "geirhos",
    stimulus: str = "224",
    definition: str = "vcr",
    delta_v: tuple[float, float] = (0.0, 1.0),
    testset: str | None = None,
    device: str = "cpu",
    batch: int | None = None,
    match_choices: bool = False,
    jpeg: int | None = None,
    pictures: int | None = None,
    clean: str | os.PathLike[str] | None = None,
    baseline: Any = "auto",
    out: str | os.PathLike[str] | None = None,
    **fit: Any,
) -> Evaluation:
    """Return how robust models are: R_a, R_p, and HMRI and MRSI next to people, per corruption.

    `model`: a name, `module:attribute`, a file, a module or a callable, or a list of these, which
    then share one pass. `images`: a class folder, a manifest, or an ImageSet; or a folder with
    ImageNet-C's or CIFAR-10-C's own files, for which `clean` is the place of the clean pictures.
    `n`: pictures per corruption. `pictures`: use so many pictures only, as many of every class.
    `labels`: "native", "entry16" or "none". `jpeg`: the quality at which corrupted pictures are
    stored and read back; ImageNet-C's are at 85. `out`: where predictions are kept, so that
    a run that was stopped goes on; otherwise they are dropped. `baseline`: whose errors CE divides
    by: "alexnet" and such, a model as above, "people", or None. `fit`: see `Fit`.
    """
    plan = Plan(
        suite, n, seed, sampling, labels, balanced, definition, names_of(corruptions), delta_v,
        jpeg, pictures,
    )  # fmt: skip
    task = Task(plan, _fit(fit), rule, humans, testset, batch, match_choices)
    source = find_source(images, stimulus, clean, out)
    task = source.task(task)
    task.check()
    where = find_device(device)
    given = list(model) if isinstance(model, list | tuple) else [model]

    def load(each: Any) -> Model:
        return each if isinstance(each, Model) else load_model(each, where)

    models, divisor = with_baseline([load(each) for each in given], baseline, load)
    task = replace(task, baseline=divisor)
    own = source.load(task.plan, Silent())
    if out is not None:
        return run_task(task, models, own, where, Path(out), Silent())
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        # what is kept to be looked at would be dropped with the folder
        found = run_task(task, models, own, where, Path(folder), Silent())
        return replace(found, examples=())


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
) -> Evaluation:
    """Predict what is missing in `out` and score all of it."""
    job, folder = prepare(task, models, images, device, out, progress)
    count = sum(map(len, job.groups))
    predict(job, folder, progress.begin("predictions", count))
    scored = score_run(task, job, folder, progress)
    return replace(scored, examples=keep_examples(job, answered(task, job, folder), out))
