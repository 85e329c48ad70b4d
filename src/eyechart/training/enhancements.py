"""What may make a network more robust, side by side: the enhancements of the ImageNet-C paper.

One standard network is trained; it is then trained further, looked at through a defence, or
replaced by another one. All are tested on the same corrupted pictures, and their errors divided by
those of the standard network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from eyechart.core.errors import UsageError
from eyechart.core.settings import refuse_other, write_settings
from eyechart.evaluation.evaluate import run_task
from eyechart.evaluation.task import Progress, Task
from eyechart.images.imageset import ImageSet
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.models.networks import build_network
from eyechart.models.preprocessing import Preprocessing
from eyechart.scores.estimate import Estimate, complement
from eyechart.scores.evaluation import Evaluation
from eyechart.testsets.choosing import choose_pictures
from eyechart.training.clahe import equalise
from eyechart.training.data import AT_ONCE, Labelled, mean_and_deviation, training_data
from eyechart.training.defences import apply_defences
from eyechart.training.loop import Start, new_network, train
from eyechart.training.mixture import Mixture
from eyechart.training.recipe import Recipe
from eyechart.training.sources import Sources

STANDARD, TUNED = "standard", "trained on"
EVALUATION, RECORD = "evaluation", "run.json"

TUNING = Recipe(epochs=5, rate=0.005, schedule="cosine")
"""As long as the paper tunes; the rate is ours."""


@dataclass(frozen=True)
class Enhancement:
    """A way to a network. `name`: of its checkpoint, or of the one that it uses.

    `network`: trained from scratch, or `recipe`: how the standard one is trained further.
    `equalised`: pictures to train with get their lightness equalised first. `defences`: through
    which it looks at pictures.
    """

    title: str
    name: str = STANDARD
    network: str = ""
    recipe: Recipe | None = None
    equalised: bool = False
    defences: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Row:
    """What came of an enhancement; shares with intervals, mCE None where it cannot be had."""

    title: str
    clean_error: Estimate | None
    mce: Estimate | None
    relative_mce: Estimate | None


def usual_enhancements(
    larger: Sequence[str], tuning: Recipe, widths: Sequence[float], weights: Sequence[float]
) -> list[Enhancement]:
    """Return the enhancements of the paper: `larger` are other networks to train from scratch.

    `widths`, `weights`: of stability training, all pairs of which are tried.
    """
    found = [
        Enhancement(f"{TUNED}", "further", recipe=tuning),
        Enhancement("CLAHE", "clahe", recipe=tuning, equalised=True, defences=("clahe",)),
        Enhancement("non-local means", defences=("nlm",)),
    ]
    for width in widths:
        for weight in weights:
            recipe = replace(tuning, stability=weight, stability_width=width)
            title = f"stability training, noise {width:g}, weight {weight:g}"
            found.append(Enhancement(title, f"stability-{width:g}-{weight:g}", recipe=recipe))
    found.append(Enhancement("ten-crop", defences=("ten-crop",)))
    found += [Enhancement(name, f"network-{place}", name) for place, name in enumerate(larger, 1)]
    return found


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is to be compared: the standard network's architecture, and enhancements of it."""

    network: str
    recipe: Recipe
    enhancements: tuple[Enhancement, ...]
    task: Task
    out: Path

    def check(self) -> None:
        """Raise a UsageError unless it can be done."""
        self.recipe.check()
        for each in self.enhancements:
            if each.recipe is not None:
                each.recipe.check()
        self.task.check()
        if self.out.exists() and not self.out.is_dir():
            raise UsageError(f"Cannot write into {self.out}: it is a file, not a folder.")

    def open(self) -> None:
        """Make the folder, or see that it holds the same comparison."""
        settings = {
            "kind": "enhancements",
            "network": self.network,
            "enhancements": [each.title for each in self.enhancements],
        }
        record = self.out / RECORD
        refuse_other(record, settings, "another comparison")
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            write_settings(record, settings)
        except OSError as error:
            raise UsageError(f"Cannot write into {self.out}: {error.strerror or error}.") from None

    def path(self, name: str) -> Path:
        """Return where a checkpoint goes."""
        return self.out / f"{name}.pt"


def compare_enhancements(
    asked: Comparison, sources: Sources, device: torch.device, progress: Progress
) -> tuple[Evaluation, list[Row]]:
    """Train what is missing in the folder, test everything, and return both.

    The first row is the standard network, whose errors those of the others are divided by.
    """
    asked.check()
    pictures, test = sources.load(progress)
    data = training_data(pictures)
    # rather now than after everything is trained
    strange = sorted({str(each) for each in test.labels} - set(data.class_names))
    if strange:
        raise UsageError(
            f"{pictures.source} has no pictures of the class {strange[0]!r}, which {test.source}"
            " has: add some, or take the class out."
        )
    for each in asked.enhancements:
        if each.network:
            build_network(each.network, len(data.class_names))
    asked.open()
    _train_all(asked, data, device, progress)
    models = [_load(asked, Enhancement(STANDARD), device)]
    models += [_load(asked, each, device) for each in asked.enhancements]
    task = replace(asked.task, baseline=models[0].name)
    found = run_task(task, models, _chosen(test, task), device, asked.out / EVALUATION, progress)
    titles = [STANDARD, *(each.title for each in asked.enhancements)]
    return found, [
        _row(found, model.name, title) for model, title in zip(models, titles, strict=True)
    ]


def _chosen(test: ImageSet, task: Task) -> ImageSet:
    """Return the pictures to test with, as many as the plan wants of them."""
    if task.plan.pictures is None or task.plan.pictures >= len(test):
        return test
    return test.take(choose_pictures(test.pictures, task.plan).tolist())


def _train_all(asked: Comparison, data: Labelled, device: torch.device, progress: Progress) -> None:
    steps = Preprocessing(None, *mean_and_deviation(data))
    path = asked.path(STANDARD)
    seed = asked.recipe.seed
    start = new_network(asked.network, data, seed, steps)
    train(start, data, Mixture(), asked.recipe, device, path, progress)
    equalised: Labelled | None = None
    for each in asked.enhancements:
        if each.network:
            own = new_network(each.network, data, seed, steps)
            train(own, data, Mixture(), asked.recipe, device, asked.path(each.name), progress)
        elif each.recipe is not None:
            used = data
            if each.equalised:
                equalised = equalised or _equalised(data, device)
                used = equalised
            standard = _start(path, data)
            train(standard, used, Mixture(), each.recipe, device, asked.path(each.name), progress)


def _start(path: Path, data: Labelled) -> Start:
    model = load_model(str(path), torch.device("cpu"), half=False, trust=True)
    assert model.module is not None, "a checkpoint is a module"
    held = read_checkpoint(path)
    return Start(model.module, held.network, held.base, data.class_names, model.preprocessing)


def _equalised(data: Labelled, device: torch.device) -> Labelled:
    """Return the pictures as CLAHE leaves them."""
    made = []
    for start in range(0, len(data), AT_ONCE):
        places = range(start, min(start + AT_ONCE, len(data)))
        made.append(equalise(data.batch(places).to(device)).cpu())
    return replace(data, whole=torch.cat(made))


def _load(asked: Comparison, each: Enhancement, device: torch.device) -> Model:
    model = load_model(str(asked.path(each.name)), device, trust=True)
    return apply_defences(model, each.defences)


def _row(found: Evaluation, name: str, title: str) -> Row:
    model = next(each for each in found.models if each.name == name)
    space = model.spaces[0]
    clean = None if space.clean_accuracy is None else complement(space.clean_accuracy)
    own = space.normalised
    if own is None:
        return Row(title, clean, None, None)
    return Row(title, clean, own.mce, own.relative_mce)
