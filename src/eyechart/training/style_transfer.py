"""Train a style transfer network with a perceptual loss on the features of a trained model.

An image is repainted such that a model's deep features equal the original image's features rescaled
to the style's statistics, and such that features at every depth have the style's statistics (Huang,
Belongie. ICCV 2017). For some images the target is their own statistics, so they should be
reconstructed unchanged.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, l1_loss, mse_loss

from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.core.randomness import hash64
from eyechart.corruptions.style import Styles, StyleTransfer, statistics, with_statistics
from eyechart.images.imageset import ImageSet
from eyechart.models.model import Model
from eyechart.training.distributed import ProcessGroup
from eyechart.training.image_blocks import generator
from eyechart.training.recipe import StyleRecipe
from eyechart.training.state import TrainingState

DEPTHS = (2, 4, 8, 16)
"""Downsampling factors of the features that are used."""

CONTENT_DEPTH = 8
MIN_IMAGES = 8
"""Minimum number of content images and of style images."""


class Features:
    """A model's features at several depths, each from the last layer before downsampling."""

    def __init__(self, model: Model, device: torch.device) -> None:
        if model.module is None:
            raise UsageError(f"{model.name} is not a torch module, so its features cannot be used.")
        self.module = model.module.to(device).eval()
        # Gradients pass through the features to the transfer network, but do not change them.
        for parameter in self.module.parameters():
            parameter.requires_grad_(False)
        self.steps = model.preprocessing
        self.layers = self._find(device)

    def _find(self, device: torch.device) -> dict[int, tuple[nn.Module, int]]:
        """Return the layer for each depth, and which call to use if it is called repeatedly."""
        # A multiple of all downsampling factors.
        side = 128
        layers: dict[int, tuple[nn.Module, int]] = {}
        order: list[tuple[int, nn.Module, int]] = []
        calls: Counter[nn.Module] = Counter()

        def note(module: nn.Module, _: object, output: object) -> None:
            calls[module] += 1
            if isinstance(output, Tensor) and output.ndim == 4 and output.shape[2]:
                order.append((round(side / output.shape[2]), module, calls[module]))

        handles = [part.register_forward_hook(note) for part in self.module.modules()]
        try:
            with torch.no_grad():
                self.module(torch.zeros(1, 3, side, side, device=device))
        except Exception as error:
            message = " ".join(str(error).split())
            raise UsageError(
                f"The model fails on images of {side} px ({message}): choose another model."
            ) from None
        finally:
            for handle in handles:
                handle.remove()
        for depth, module, call in order:
            # After normalization and activation: the bare output of a convolution is skipped.
            if depth in DEPTHS and not isinstance(module, nn.Conv2d):
                layers[depth] = module, call
        if CONTENT_DEPTH not in layers:
            raise UsageError(
                "The model has no features at 1/8 of the image size: choose a convolutional model."
            )
        return layers

    def __call__(self, images: Tensor) -> dict[int, Tensor]:
        """Return the features of images (B, 3, H, W) in 0…1 at each depth."""
        features: dict[int, Tensor] = {}
        handles = [
            module.register_forward_hook(_keep(features, depth, call))
            for depth, (module, call) in self.layers.items()
        ]
        try:
            self.module(self.steps.on_unit(images))
        finally:
            for handle in handles:
                handle.remove()
        return features


def _keep(
    features: dict[int, Tensor], depth: int, call: int
) -> Callable[[nn.Module, object, Tensor], None]:
    """Return a hook that stores a layer's output in call number `call`, counted from 1."""
    calls = 0

    def keep(module: nn.Module, _: object, output: Tensor) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            # In float32: standard deviations of half-precision features would be imprecise.
            features[depth] = output.float()

    return keep


class Cutouts:
    """Random crops of images, possibly mirrored; the random numbers depend only on the step."""

    def __init__(self, images: ImageSet, side: int, device: torch.device) -> None:
        if len(images) < MIN_IMAGES:
            raise UsageError(
                f"{images.source} must have at least {MIN_IMAGES} images, got {len(images)}."
            )
        self.images = [_at_least(images.batch([number])[0], side) for number in range(len(images))]
        self.side, self.device = side, device

    def __call__(self, count: int, *parts: str | int) -> Tensor:
        """Return `count` crops, float32 (B, 3, side, side) in 0…1."""
        chance = generator(*parts)
        cutouts = []
        for number in torch.randint(len(self.images), (count,), generator=chance).tolist():
            image = self.images[number]
            top, left = (
                int(torch.randint(room - self.side + 1, (), generator=chance))
                for room in image.shape[1:]
            )
            cut = image[:, top : top + self.side, left : left + self.side]
            cutouts.append(cut.flip(2) if int(torch.randint(2, (), generator=chance)) else cut)
        return torch.stack(cutouts).to(self.device).float() / 255


def _at_least(image: Tensor, side: int) -> Tensor:
    """Return an image, uint8 (3, H, W), enlarged if it is smaller than a crop."""
    shorter = min(image.shape[1:])
    if shorter >= side:
        return image
    # Rounding may leave a side below the crop, hence the lower bound.
    size = [max(side, round(length * side / shorter)) for length in image.shape[1:]]
    enlarged = interpolate(image[None].float(), size, mode="bilinear")[0]
    return enlarged.round().clamp(0, 255).to(torch.uint8)


def train_style_transfer(
    model: Model,
    contents: ImageSet,
    styles: ImageSet,
    recipe: StyleRecipe,
    *,
    device: torch.device,
    path: Path,
    progress: Progress,
) -> Styles:
    """Return a trained style transfer network with the statistics of all styles.

    An interrupted training resumes from the .state file next to `path`.
    """
    recipe.check()
    features = Features(model, device)
    settings = {
        **asdict(recipe),
        "model": f"{model.name} {model.identity}",
        "stimulus": contents.stimulus.name,
        "contents": contents.fingerprint,
        "styles": styles.fingerprint,
    }
    # Weights are drawn on the CPU, so that they do not depend on the device.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(hash64("style transfer", recipe.seed) >> 1)
        run = _StyleTraining(
            features,
            Cutouts(contents, recipe.side, device),
            Cutouts(styles, recipe.side, device),
            recipe,
            device,
        )
    state = TrainingState(path, settings, run.network, run.optimizer)
    advance = progress.begin("training a style transfer", recipe.steps)
    advance(state.n_done, "")
    state.run(
        recipe.steps,
        lambda: state.n_done,
        run.learn,
        lambda: advance(1, ""),
        ProcessGroup(device),
    )
    return run.styles()


class _StyleTraining:
    """One training run: the network, its optimizer and its images."""

    def __init__(
        self,
        features: Features,
        contents: Cutouts,
        looks: Cutouts,
        recipe: StyleRecipe,
        device: torch.device,
    ) -> None:
        self.features, self.contents, self.looks = features, contents, looks
        self.recipe, self.device = recipe, device
        self.network = StyleTransfer().to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), recipe.lr)

    def learn(self, n_done: int) -> None:
        """Run one step, after this number of steps."""
        recipe = self.recipe
        left = 1 - n_done / recipe.steps
        for group in self.optimizer.param_groups:
            # Constant for the first half of the training, then linear to 0.
            group["lr"] = recipe.lr * min(1.0, 2 * left)
        contents = self.contents(recipe.batch_size, recipe.seed, "contents", n_done)
        looks = self.looks(recipe.batch_size, recipe.seed, "looks", n_done)
        same = round(recipe.same_share * recipe.batch_size)
        # Images in their own style should be reconstructed unchanged.
        looks[:same] = contents[:same]
        chance = generator(recipe.seed, "amounts", n_done)
        amounts = torch.rand(recipe.batch_size, generator=chance).to(self.device)
        # Half of the images get the full style, which is the hardest to learn.
        amounts[recipe.batch_size // 2 :] = 1
        amounts[:same] = 0
        loss = self._loss(contents, looks, amounts, same)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        # Not at every step, since reading the loss waits for the GPU.
        looked_at = n_done % 100 == 0 or n_done == recipe.steps - 1
        if looked_at and not bool(loss.isfinite()):
            raise UsageError(f"The training diverged: give an --lr below {recipe.lr:g}.")

    def _loss(self, contents: Tensor, looks: Tensor, amounts: Tensor, same: int) -> Tensor:
        recipe = self.recipe
        means, deviations = statistics(self.network.encoder(looks))
        painted = self.network(contents, means, deviations, amounts)
        with torch.no_grad():
            wanted, style = self.features(contents), self.features(looks)
            plain = wanted[CONTENT_DEPTH]
            share = amounts.reshape(-1, 1, 1, 1)
            full = with_statistics(plain, *statistics(style[CONTENT_DEPTH]))
            goal = (1 - share) * plain + share * full
        features = self.features(painted)
        # Normalized by variance at every depth, since the scales of features differ.
        loss = mse_loss(features[CONTENT_DEPTH], goal) / goal.var().clamp_min(1e-6)
        part = amounts[:, None]
        for depth, target in style.items():
            scale = target.var().clamp_min(1e-6) * len(style)
            pairs = zip(
                *(statistics(values) for values in (features[depth], wanted[depth], target)),
                strict=True,
            )
            for one, before, after in pairs:
                goal_of = (1 - part) * before + part * after
                loss = loss + recipe.style_weight * mse_loss(one, goal_of) / scale
        if same:
            loss = loss + recipe.same_weight * l1_loss(painted[:same], contents[:same])
        return loss

    @torch.no_grad()
    def styles(self) -> Styles:
        """Return the network with each style's statistics, computed from its image's center."""
        network = self.network.eval()
        pairs = []
        side = self.recipe.side
        for image in self.looks.images:
            top, left = ((room - side) // 2 for room in image.shape[1:])
            cut = image[:, top : top + side, left : left + side]
            features = network.encoder(cut[None].to(self.device).float() / 255)
            pairs.append(statistics(features))
        means, deviations = (torch.cat(statistic).cpu() for statistic in zip(*pairs, strict=True))
        return Styles(network, means, deviations)
