"""The training loop; after any interruption it resumes with the same result.

Blocks of images are mirrored, shifted and corrupted together on the device, then passed to the
network batch by batch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, softmax

from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.core.phrases import count_of
from eyechart.core.progress import Progress
from eyechart.core.randomness import hash64
from eyechart.core.storage.run_folder import Settings
from eyechart.core.version import versions
from eyechart.models.checkpoint import Checkpoint, find_last_layer, write_checkpoint
from eyechart.models.model import Preprocessing, identity_of, in_one_line, lay_out
from eyechart.models.networks import build_network
from eyechart.training.corruption_mixture import Mixture
from eyechart.training.data import DeviceDataset, LabeledImages
from eyechart.training.distributed import ProcessGroup, joined
from eyechart.training.image_blocks import Blocks, mixing_weights
from eyechart.training.recipe import Recipe
from eyechart.training.state import TrainingState, is_finished, state_path


@dataclass(frozen=True, eq=False)
class InitialModel:
    """What a training run starts from: a module, which is modified, and checkpoint metadata.

    Either `network` is the module's architecture, or `base` is the model it comes from, as a string
    that `load_model` accepts. `trained_on`: corruptions that the module was trained on before.
    """

    module: nn.Module
    network: str = ""
    base: str = ""
    class_names: tuple[str, ...] = ()
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    trained_on: tuple[str, ...] = ()


def new_network(name: str, data: LabeledImages, seed: int, steps: Preprocessing) -> InitialModel:
    """Return an untrained network for the classes of the data; its weights depend on the seed."""
    with torch.random.fork_rng(devices=[]):
        # Imports on the first call may draw random numbers, so call it once before seeding.
        build_network(name, len(data.class_names))
        torch.manual_seed(hash64("weights", seed) >> 1)
        module = build_network(name, len(data.class_names))
    return InitialModel(module, name, "", data.class_names, steps)


@dataclass(frozen=True, eq=False)
class Training:
    """A training run: the module, the images, the corruptions and the recipe.

    To start again, pass a new module, because training modifies the module.
    """

    start: InitialModel
    data: LabeledImages
    recipe: Recipe
    mixture: Mixture = field(default_factory=Mixture)

    def check(self) -> None:
        """Raise a UsageError unless the training is valid."""
        self.recipe.check()
        self.recipe.check_crop(self.data.size)
        self.mixture.check()
        if not any(True for _ in self.start.module.parameters()):
            raise UsageError("The network has no parameters to train: give another network.")

    def settings(self) -> dict[str, object]:
        """Return all settings of a training run as plain values, with user settings first."""
        steps, data = self.start.preprocessing, self.data
        return {
            **self.recipe.settings(),
            **self.mixture.settings(),
            "stimulus": data.images.stimulus.name,
            "size": list(data.size),
            "preprocessing": {**asdict(steps), "mean": list(steps.mean), "std": list(steps.std)},
            "data": data.fingerprint,
            "transform": None if data.transform is None else data.transform.name,
            "start": identity_of(self.start.module),
        }


def train(
    training: Training,
    device: torch.device,
    path: Path,
    progress: Progress,
    held: DeviceDataset | None = None,
) -> Path:
    """Train the module, write its checkpoint to `path` and return the path.

    An interrupted training resumes from the .state file next to it. A finished training is not
    repeated, and a training with a different configuration raises a UsageError. Under torchrun all
    processes share every batch. `held`: the data, if it is already on the device.
    """
    training.check()
    settings, recipe = training.settings(), training.recipe
    if is_finished(path, settings):
        return path
    with joined(device) as world, _exact(recipe.deterministic, device):
        # Every process gets the same number of images from each batch.
        if recipe.batch_size % world.count:
            raise UsageError(
                f"batch must be a multiple of the number of processes, {world.count}, got"
                f" {recipe.batch_size}."
            )
        # Training seeds torch at every step; the caller's random state is restored afterwards.
        forked = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=forked):
            run = _Run(
                training, held or DeviceDataset(training.data, device), path, settings, world
            )
            run.go(progress)
        # The first process writes the checkpoint, which the others may load next.
        world.wait()
    return path


class _Run:
    """The state of a training run: the module, its optimizer, and the number of steps done."""

    def __init__(
        self,
        training: Training,
        held: DeviceDataset,
        path: Path,
        settings: Settings,
        world: ProcessGroup,
    ) -> None:
        start, recipe, device = training.start, training.recipe, held.device
        self.start, self.recipe, self.path = start, recipe, path
        self.settings, self.world, self.device = settings, world, device
        self.layout = torch.channels_last if device.type == "cuda" else torch.contiguous_format
        # Weights stay in float32: in bfloat16 small updates would be lost.
        self.module = start.module.to(device, torch.float32)
        lay_out(self.module, self.layout)
        self.optimizer = torch.optim.SGD(
            self._tuned(held),
            recipe.lr,
            recipe.momentum,
            weight_decay=recipe.weight_decay,
            nesterov=recipe.nesterov,
            fused=device.type == "cuda" or None,
        )
        self.blocks = Blocks(held, training.mixture, recipe, world)
        self.length = self.blocks.length
        self.block: Iterator[tuple[Tensor, Tensor]] = iter(())
        self.state = TrainingState(path, settings, self.module, self.optimizer)
        self.loss = torch.zeros(())
        # A network may have more outputs than the data has classes, but not fewer.
        self.classes = int(held.data.labels.max()) + 1

    @property
    def done(self) -> int:
        """The number of steps done."""
        return self.state.n_done

    def _tuned(self, held: DeviceDataset) -> list[nn.Parameter]:
        """Return the parameters that are trained; the others get no gradients."""
        part = self.module
        if self.recipe.tune == "last":
            unit = held.batch(torch.arange(min(2, len(held.data)))).float() / 255
            ready = self.start.preprocessing.on_unit(unit).contiguous(memory_format=self.layout)
            part = part.get_submodule(find_last_layer(part, ready))
        self.module.requires_grad_(False)
        part.requires_grad_(True)
        return list(part.parameters())

    def go(self, progress: Progress) -> None:
        """Train to the end, starting from the saved state if there is one; write the checkpoint."""
        batch = self.length.batch_size
        advance = progress.begin(f"training {self.path.stem}", self.length.images)
        advance(self.done * batch, "")
        wrapped = self.world.wrap(self.module)
        # In train mode, batch normalization would adapt to the images even with frozen weights.
        self.module.train(self.recipe.tune == "all")
        self.state.run(
            self.length.steps,
            self._next_batch,
            lambda pair: self._learn(wrapped, *pair),
            lambda: advance(batch, ""),
            self.world,
        )
        self._check()
        if self.world.is_first:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            start, steps = self.start, self.start.preprocessing
            checkpoint = Checkpoint(
                start.network,
                start.base,
                start.class_names,
                tuple(dict.fromkeys((*start.trained_on, *self.blocks.mixture.names))),
                self.module.state_dict(),
                steps.side,
                steps.mean,
                steps.std,
                {"settings": self.settings},
                versions(),
            )
            write_checkpoint(checkpoint, self.path)
            # Only after the checkpoint is written, so that an interrupt in between loses nothing.
            state_path(self.path).unlink(missing_ok=True)

    def _next_batch(self) -> tuple[Tensor, Tensor]:
        """Return the batch of the next step; the loss is checked before every block."""
        batch = next(self.block, None)
        if batch is None:
            # Checked once per block only, since reading the loss synchronizes a GPU.
            self._check()
            self.block = self.blocks.after(self.done)
            batch = next(self.block)
        return batch

    def _learn(self, module: nn.Module, images: Tensor, labels: Tensor) -> None:
        """Run one step of SGD."""
        recipe = self.recipe
        # Random numbers inside a network (dropout) must not depend on the step of a resume.
        torch.manual_seed(hash64("step", recipe.seed, self.done, self.world.rank) >> 1)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.lr_at(self.done, self.length)
        unit = images.float() / 255
        steps = self.start.preprocessing
        wanted = self.recipe.precision
        is_half = wanted == "bfloat16" or (wanted == "auto" and self.device.type == "cuda")
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_half):
            loss = self._loss(module, unit, labels, steps)
        self.optimizer.zero_grad(set_to_none=True)
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise self._failed(error, images) from error
        self.optimizer.step()
        self.loss = loss.detach()

    def _loss(
        self, module: nn.Module, unit: Tensor, labels: Tensor, steps: Preprocessing
    ) -> Tensor:
        recipe = self.recipe
        if recipe.mixup:
            count = len(unit) if recipe.mixup_per_image else 1
            drawn = mixing_weights(recipe.mixup, count, recipe.seed, self.done, self.world.rank)
            weights = drawn.to(unit.device)
            # Seeded by the step above, so a resumed training mixes the same pairs.
            partner = torch.randperm(len(unit), device=unit.device)
            shares = weights[:, None, None, None]
            unit = shares * unit + (1 - shares) * unit[partner]
            scores = self._scores(module, unit, steps)
            losses = weights * cross_entropy(scores, labels, reduction="none")
            losses += (1 - weights) * cross_entropy(scores, labels[partner], reduction="none")
            loss = losses.mean()
        else:
            scores = self._scores(module, unit, steps)
            loss = cross_entropy(scores, labels)
        if recipe.stability:
            noise = (torch.rand_like(unit) * 2 - 1) * recipe.stability_width
            near = log_softmax(self._scores(module, (unit + noise).clamp(0, 1), steps), dim=1)
            # Cross-entropy between the predictions for the clean and the noisy image.
            loss = loss - recipe.stability * (softmax(scores, dim=1) * near).sum(dim=1).mean()
        return loss

    def _scores(self, module: nn.Module, unit: Tensor, steps: Preprocessing) -> Tensor:
        ready = steps.on_unit(unit).contiguous(memory_format=self.layout)
        try:
            scores = module(ready)
        except UsageError:
            raise
        except Exception as error:
            raise self._failed(error, ready) from error
        n_classes = self.classes
        if not isinstance(scores, Tensor) or scores.ndim != 2 or scores.shape[1] < n_classes:
            raise UsageError(
                "The network to train must return class scores (B, K) with K at least"
                f" {n_classes}, got"
                f" {tuple(getattr(scores, 'shape', ())) or type(scores).__name__}."
            )
        return scores.float()

    def _failed(self, error: Exception, ready: Tensor) -> UsageError:
        if is_out_of_memory(error):
            return UsageError(
                f"A batch of {count_of(len(ready), 'image')} does not fit into memory: give a"
                " smaller --batch-size."
            )
        return UsageError(
            f"The network failed on a batch of shape {tuple(ready.shape)}: {in_one_line(error)}."
        )

    def _check(self) -> None:
        """Raise a UsageError if the loss, or at the end any weight, is not finite."""
        numbers = [self.loss]
        if self.done == self.length.steps:
            held = self.module.state_dict().values()
            # Integers, such as batch counters, are always finite.
            numbers += [value for value in held if value.is_floating_point()]
        if not all(bool(value.isfinite().all()) for value in numbers):
            raise UsageError(
                f"The training of {self.path.stem} diverged: give an --lr below"
                f" {self.recipe.lr:g}, or a longer warmup."
            )


@contextmanager
def _exact(wanted: bool, device: torch.device) -> Iterator[None]:
    """Restrict torch to deterministic kernels, if requested."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    # cuBLAS reads this when it is first used.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
