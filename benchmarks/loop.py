"""Compare the speed of evaluation (corrupt, measure, predict, write, score) with the model alone.

Images are already decoded.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.resnet50 import ResNet50
from benchmarks.scoring import SIDE, listed_images
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.images.imageset import ImageSet
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.scoring.score import score_run
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.engine import predict
from eyechart.predictions.loop import BATCH, PredictionTask
from eyechart.results.results_file import write_results
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples
from eyechart.testsets.testset_settings import PARAMETERS

DIFFERENT = 512
"""Number of images that are made; more would take longer to make than to measure."""


@dataclass(frozen=True)
class LoopSpeed:
    """Images per second of the model alone, and of the evaluation loop for each corruption.

    `mean` is derived from the mean time per image over corruptions; `ratio` is `mean` relative to
    the model's speed. `whole`: one run over all corruptions and the clean images.
    """

    model: float
    loop: dict[str, float]
    whole: "WholeRun"

    @property
    def mean(self) -> float:
        """Images per second if every corruption has the same number of images."""
        return len(self.loop) / sum(1 / rate for rate in self.loop.values())

    @property
    def ratio(self) -> float:
        """The loop's speed as a fraction of the model's speed."""
        return self.mean / self.model


@dataclass(frozen=True)
class WholeRun:
    """The time of one run over all corruptions, in seconds.

    Attributes:
        seconds: from the images to the merged predictions in a folder.
        scoring_seconds: from the predictions to results.json, written.
        n_images: number of images, clean images included.
    """

    seconds: float
    scoring_seconds: float
    n_images: int

    @property
    def rate(self) -> float:
        """Images per second, without scoring."""
        return self.n_images / self.seconds


def measure_loop(
    device: torch.device, n: int, max_images: int, batch: int | None, is_whole_only: bool = False
) -> LoopSpeed:
    """Measure a ResNet-50 with random weights on images that are already decoded.

    Args:
        device: where to measure.
        n: number of samples per corruption.
        max_images: number of images.
        batch: the batch size; the device's default if None.
        is_whole_only: measure only the run over all corruptions, not each one of them.
    """
    model = load_model(ResNet50(), device)
    size = batch or BATCH.get(device.type, BATCH["cpu"])
    images = _resident(max_images)
    rate = _model_rate(model, images, n, size, device)
    rates = {}
    for entry in () if is_whole_only else Plan().entries():
        plan = Plan(n=n, corruptions=(entry.name,))
        # Without clean images, which are predicted only once for all corruptions.
        groups = plan_samples(images, plan)[1:]
        first = groups[0].select(groups[0].row[:size] - groups[0].row[0])
        warm_up = PredictionTask(images, plan, [first], [model], device, size)
        _seconds(warm_up)
        rates[entry.name] = n / _seconds(
            PredictionTask(images, plan, groups, [model], device, size)
        )
    # kernels are compiled on first use, which would be timed otherwise
    _whole_run(images, size, model, size)
    return LoopSpeed(rate, rates, _whole_run(images, n, model, size))


def _whole_run(images: ImageSet, n: int, model: Model, size: int) -> WholeRun:
    settings = EvaluateSettings(n=n, sampling=PARAMETERS, baseline="auto")
    plan = settings.plan
    start = time.perf_counter()
    task = PredictionTask(images, plan, plan_samples(images, plan), [model], model.device, size)
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        predictions = Path(folder) / "predictions"
        predict(task, predictions, lambda count, message: None)
        predicted = time.perf_counter()
        write_results(score_run(EvaluationRun(settings, task, predictions), NO_PROGRESS), folder)
        return WholeRun(predicted - start, time.perf_counter() - predicted, task.n_samples)


def _seconds(job: PredictionTask) -> float:
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        _wait(job.device)
        start = time.perf_counter()
        predict(job, Path(folder), lambda count, message: None)
        return time.perf_counter() - start


def _model_rate(model: Model, images: ImageSet, n: int, size: int, device: torch.device) -> float:
    batch = torch.stack([images.kept[place % len(images)] for place in range(size)]).to(device)
    for _ in range(3):
        model(batch)
    _wait(device)
    start = time.perf_counter()
    rounds = -(-n // size)
    for _ in range(rounds):
        model(batch)
    _wait(device)
    return rounds * size / (time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _resident(count: int) -> ImageSet:
    """Return named images of smooth random colors, in the form of decoded image files."""
    different = []
    for place in range(min(count, DIFFERENT)):
        random = ImageRandom(torch.tensor([place]), [hash64("bench")], torch.device("cpu"))
        different.append(_clouds(random))
    # Further images repeat these under other names, so they get other random numbers.
    kept = {place: different[place % DIFFERENT] for place in range(count)}
    return listed_images(count, kept)


def _clouds(random: ImageRandom) -> Tensor:
    """Return the sum of coarse and fine random colors, uint8 (3, 224, 224)."""
    total = torch.zeros(1, 3, SIDE, SIDE)
    for side in (7, 28, 112, SIDE):
        total += nn.functional.interpolate(random.uniform(f"side {side}", (3, side, side)), SIDE,
                                           mode="bilinear")  # fmt: skip
    return (total[0] * (255 / 4)).to(torch.uint8)
