"""The interface of models: 8-bit images in, preprocessing, class scores out."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from eyechart.core.arguments import as_flag, as_int
from eyechart.core.devices import image_device
from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.core.phrases import count_of
from eyechart.images.image_types import to_rgb_levels
from eyechart.images.labels.imagenet import CLASSES
from eyechart.models.label_map import LabelMap

SIZE_SIGNS = (
    *("input size", "output size", "input height", "input width", "input image size"),
    *("shapes cannot be multiplied", "must match the size", "must match the existing size"),
    *("invalid for input of size", "invalid dimensions", "feature map", "expected height"),
    *("kernel size can't be greater", "padding size should be less", "image size"),
)
"""Lower-case phrases in errors of torch, timm, transformers and onnxruntime about images whose size
a network does not accept.
"""

GRAY_SIGN = "to have 1 channels, but got 3 channels"
"""What torch says if a network for grayscale images gets RGB images."""

CPU_PIXELS, CPU_BATCH = 8 * 224 * 224, 32
"""Maximum number of pixels and images that a network gets at a time on a CPU, where larger batches
are slower."""

Forward = Callable[[Tensor], object]
"""A wrapped model: any callable that takes a float batch (B, 3, H, W)."""


Channels = tuple[float, float, float]

INTERPOLATIONS = ("bicubic", "bilinear", "nearest")
ORDERS = ("rgb", "bgr")


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of a model; by default it only scales to 0…1, as for custom models."""

    side: int | None = None
    """Height and width to which images are resized, in px; None for no resizing."""
    mean: Channels = (0.0, 0.0, 0.0)
    std: Channels = (1.0, 1.0, 1.0)
    """Mean and standard deviation of red, green and blue, as fractions of full scale."""
    interpolation: str = "bicubic"
    """How images are resized, with antialiasing: one of `INTERPOLATIONS`."""
    channels: str = "rgb"
    """The order in which the model takes the channels: one of `ORDERS`."""

    def __call__(self, images: Tensor) -> Tensor:
        """Return 8-bit images (B, 3, H, W) as the model's float32 input, (x/255 − mean)/std."""
        return self.on_unit(images.float() / 255)

    def on_unit(self, ready: Tensor) -> Tensor:
        """Return float images in 0…1 as the model's input."""
        if self.side is not None and ready.shape[2:] != (self.side, self.side):
            size = (self.side, self.side)
            smooth = self.interpolation != "nearest"
            # torch's "nearest" has a known offset; "nearest-exact" agrees with Pillow.
            mode = self.interpolation if smooth else "nearest-exact"
            # Bicubic weights overshoot at edges; image files cannot contain these values.
            ready = interpolate(ready, size, mode=mode, antialias=smooth).clamp(0, 1)
        if self.mean != (0.0, 0.0, 0.0) or self.std != (1.0, 1.0, 1.0):
            ready = (ready - _as_tensor(self.mean, ready)) / _as_tensor(self.std, ready)
        return ready if self.channels == "rgb" else ready.flip(1)

    def __str__(self) -> str:
        size = "unchanged" if self.side is None else f"{self.side} px ({self.interpolation})"
        return (
            f"side {size}, mean {_in_words(self.mean)}, std {_in_words(self.std)},"
            f" {self.channels.upper()}"
        )


def _in_words(channels: Channels) -> str:
    return f"[{', '.join(f'{value:.4g}' for value in channels)}]"


def _as_tensor(channels: Channels, like: Tensor) -> Tensor:
    # Filled on the device: copying three numbers from the host would synchronize a GPU.
    parts = [torch.full((1, 1, 1, 1), value, device=like.device) for value in channels]
    return torch.cat(parts, dim=1)


@dataclass(frozen=True)
class ModelOrigin:
    """How a process loads a model that another process has loaded.

    `load`: returns the model on a device. `identity`: its identity when it was loaded.
    """

    load: Callable[[torch.device], "Model"]
    identity: str


class Model:
    """An image classifier with its name and preprocessing.

    `identity`: a SHA-256 of its weights, equal for equal models; "" if it has none (a function).
    `is_code`: whether it is an object given in Python, whose code `identity` does not cover.
    `classes`: the number of classes, None until the first call.
    `published_accuracy`: the published top-1 accuracy on ImageNet's validation set, 0…1.
    `class_names`: the classes of its outputs, None if they are ImageNet's. `fixed_side`: whether it
    only accepts the input size of its preprocessing. `trained_on`: names of the corruptions that it
    is known to be trained on. `origin`: how another process can load it, None if it can only be
    copied.
    """

    def __init__(
        self,
        name: str,
        forward: Forward,
        device: torch.device | str = "cpu",
        *,
        identity: str = "",
        classes: int | None = None,
        preprocessing: Preprocessing | None = None,
        dtype: torch.dtype = torch.float32,
        published_accuracy: float | None = None,
        class_names: tuple[str, ...] | None = None,
        fixed_side: bool = False,
        is_code: bool = False,
    ) -> None:
        self.name = name
        self.published_accuracy = published_accuracy
        self.class_names = class_names
        self.identity = identity
        self.classes = classes
        self.fixed_side = fixed_side
        self.is_code = is_code
        self.trained_on: tuple[str, ...] = ()
        self.origin: ModelOrigin | None = None
        self.label_map: LabelMap | None = None
        self._offered: tuple[LabelMap, ...] = ()
        self._outputs: int | None = None
        self.device = torch.device(device)
        self.dtype = dtype
        self.preprocessing = preprocessing or Preprocessing()
        self._forward = forward
        # The memory layout in which `prepared` stores a module's weights.
        self._layout = torch.contiguous_format if self.module is None else torch.channels_last

    @property
    def side(self) -> int | None:
        """Height and width to which images are resized, in px; None for no resizing."""
        return self.preprocessing.side

    @property
    def has_imagenet(self) -> bool:
        """Whether the model has 1,000 unnamed classes, which are assumed to be ImageNet's."""
        return self.classes == CLASSES and self.class_names is None

    @property
    def module(self) -> nn.Module | None:
        """The wrapped torch module, or None if a different callable is wrapped."""
        return self._forward if isinstance(self._forward, nn.Module) else None

    def use_precision(self, dtype: torch.dtype) -> None:
        """Convert the wrapped module, which must be a torch module, to this precision."""
        assert self.module is not None, "only modules can be converted"
        prepared(self.module, self.device, dtype)
        self.dtype = dtype

    def with_steps(self, steps: Preprocessing) -> "Model":
        """Return the same network with different preprocessing."""
        other = copy(self)
        other.preprocessing = steps
        return other

    def use_map(self, label_map: LabelMap) -> None:
        """Use this label map; the first call checks that the number of outputs matches."""
        self.label_map, self._offered, self.classes = label_map, (), None

    def offer_maps(self, maps: Sequence[LabelMap]) -> None:
        """Use the first of these label maps that has the same number of outputs as the model."""
        # A map that a card or a zoo has set takes precedence.
        if self.label_map is None:
            self._offered = tuple(maps)

    def __call__(self, images: Any, wait: bool = True, padded_to: int = 0) -> Tensor:
        """Return the scores of images: float32 (B, K), on the model's device (for MPS, on the CPU).

        Args:
            images: Images of any type that `corrupt` accepts, before normalization, which is part
                of the model.
            wait: Whether to wait for a GPU and check that the scores are finite. If False, the
                caller has to check them, and raise `reject()` if they are not finite.
            padded_to: Minimum number of images that the network gets; black images are added, and
                their scores are dropped.

        Returns:
            The model's scores, which are logits or probabilities: see `log_probabilities`.
        """
        levels, wait = to_rgb_levels(images), as_flag(wait, "wait")
        padded_to = as_int(padded_to, "padded_to", 0, 100_000)
        with torch.inference_mode():
            # On MPS only the network itself runs: images are resized, and scores used, on the CPU.
            ready = self.preprocessing(levels.to(image_device(self.device)))
            ready = ready.to(self.device, self.dtype, memory_format=self._layout)
            # What the added images show does not matter: their scores are dropped.
            if padded_to > len(ready):
                black = ready.new_zeros((padded_to - len(ready), *ready.shape[1:]))
                ready = torch.cat((ready, black)).contiguous(memory_format=self._layout)
            scores = self._checked(self._run(ready), len(ready))[: len(levels)]
            if wait and not bool(scores.isfinite().all()):
                raise self.reject()
            return scores

    def network_batch(self, n_images: int, n_pixels: int) -> int:
        """Return how many images of `n_pixels` the network gets at a time, at most `n_images`.

        Batches are always filled up to this number. The scores of an image would otherwise depend
        in the last bits on how many others are predicted with it, and a GPU may need several
        seconds for the first batch of each new size.
        """
        if self.device.type != "cpu":
            return n_images
        # Small images may be enlarged to the input of the network.
        pixels = max(n_pixels, (self.side or 0) ** 2)
        return min(n_images, CPU_BATCH, max(1, CPU_PIXELS // pixels))

    def reject(self) -> UsageError:
        """Return the error for scores that are not finite."""
        need = f"Model '{self.name}' must return finite class scores, got NaN or infinity"
        if self.dtype != torch.float32:
            return UsageError(f"{need}: try full precision.")
        return UsageError(f"{need}: check its weights and its normalization.")

    def _run(self, ready: Tensor) -> object:
        try:
            return self._forward(ready)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            # The caller can try again with a smaller batch.
            if is_out_of_memory(error):
                raise
            if self._layout == torch.channels_last and "view size is not comp" in str(error):
                # Many networks call x.view(…), which fails on channels-last: switch layouts for
                # good.
                self._layout = torch.contiguous_format
                if self.module is not None:
                    lay_out(self.module, self._layout)
                return self._run(ready.contiguous())
            if isinstance(error, TypeError) and "positional argument" in str(error):
                raise UsageError(
                    f"Model '{self.name}' must take a batch of images, but does not"
                    f" ({in_one_line(error)}): to use the model that it returns, write () after its"
                    " name."
                ) from error
            reason, hint = in_one_line(error), ""
            if self.dtype != torch.float32:
                hint = f" (it runs in {self.dtype}; full precision may help)"
            # A model with a fixed side always gets images of this size.
            if self.side is None and any(sign in str(error).lower() for sign in SIZE_SIGNS):
                reason = reason.replace(". ", "; ")
                hint = "; use --stimulus to give images of the size that it needs"
            if GRAY_SIGN in str(error):
                hint = (
                    "; models get RGB images: convert them in the model, for example with"
                    " images.mean(1, keepdim=True)"
                )
            raise UsageError(
                f"Model '{self.name}' failed on a {self.dtype} batch {tuple(ready.shape)}:"
                f" {reason}{hint}."
            ) from error

    def _checked(self, scores: object, count: int) -> Tensor:
        # Scores are checked here, since a wrong shape would only fail much later.
        need = f"Model '{self.name}' must return class scores (B, K) with K at least 2"
        if isinstance(scores, nn.Module):
            raise UsageError(
                f"{need}, got a {type(scores).__name__}: to use the model that it returns, write"
                " () after its name."
            )
        if not isinstance(scores, Tensor):
            raise UsageError(
                f"{need}, got a {type(scores).__name__}: return the tensor of scores alone."
            )
        if scores.ndim != 2 or scores.shape[0] != count or scores.shape[1] < 2:
            raise UsageError(
                f"{need}, got {tuple(scores.shape)} for {count_of(count, 'image')}: return one row"
                " of scores for each."
            )
        if scores.is_complex() or scores.dtype == torch.bool:
            raise UsageError(f"{need}, got {scores.dtype}: return real numbers.")
        outputs = scores.shape[1]
        # With a label map, `classes` counts the kept outputs, not all outputs of the network.
        is_mapped = self.label_map is not None or bool(self._offered)
        known = self._outputs or (None if is_mapped else self.classes)
        if known is not None and outputs != known:
            raise UsageError(
                f"{need} and the same in every call, got {outputs} after {known}:"
                " return a score for every class in every call."
            )
        if self._outputs is None:
            self._settle(outputs)
        # A function may return its scores on another device: those of an ONNX session are on the
        # CPU.
        scores = scores.to(image_device(self.device), torch.float32)
        return scores if self.label_map is None else self.label_map(scores)

    def _settle(self, outputs: int) -> None:
        """Determine the meaning of the outputs from their number, once, at the first call."""
        # A map that was set must fit; among the offered maps, the first one that fits is used.
        label_map = self.label_map or next((m for m in self._offered if m.length == outputs), None)
        if label_map is not None and label_map.length != outputs:
            raise UsageError(
                f"The label map {label_map.source} has {label_map.length:,} lines, but the model"
                f" '{self.name}' has {outputs:,} outputs: give a map with one line per output."
            )
        if label_map is not None:
            self.label_map, self.class_names = label_map, label_map.names
            self.mark(label_map.picked, label_map.names)
        self.classes = outputs if label_map is None else len(label_map.picked)
        if self.class_names is not None and len(self.class_names) != self.classes:
            raise UsageError(
                f"{len(self.class_names):,} class names were given, but the model '{self.name}' has"
                f" {self.classes:,} outputs: give one name per output."
            )
        self._outputs = outputs

    def mark(self, *settings: object) -> None:
        """Make the model's identity, if it has one, depend on these settings as well."""
        if self.identity:
            self.identity = hashlib.sha256(f"{self.identity} {settings!r}".encode()).hexdigest()


def prepared(module: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Return the module in eval mode on the device, in `dtype`; it is modified in place.

    Its weights are stored in channels-last layout, which makes convolutions faster.
    """
    module = module.to(device, dtype).eval()
    lay_out(module, torch.channels_last)
    return module


def lay_out(module: nn.Module, layout: torch.memory_format) -> None:
    """Store the weights of convolutions in this memory layout."""
    for parameter in module.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)


def identity_of(module: nn.Module) -> str:
    """Return the SHA-256 of a module's weights and of its submodules' types, in hexadecimal.

    The result is "" for a module without tensors, whose behavior depends only on its code.
    """
    digest = hashlib.sha256()
    for name, part in module.named_modules():
        # Equal weights in a different architecture are a different model.
        digest.update(f"{name}:{type(part).__qualname__};".encode())
    tensors = {k: v for k, v in module.state_dict().items() if isinstance(v, Tensor)}
    for name, tensor in tensors.items():
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        # As bytes, since NumPy has no bfloat16.
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest() if tensors else ""


@contextmanager
def as_usage_error(sentence: Callable[[BaseException], str]) -> Iterator[None]:
    """Raise errors of other packages as a UsageError with the sentence about them.

    Errors about memory stay as they are: the caller can try again with less.
    """
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(sentence(error)) from error


def in_one_line(error: BaseException) -> str:
    """Return the most informative line of an error, without a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # TorchScript starts with a heading and a traceback; the cause is on the last line.
    line = lines[-1] if "TorchScript interpreter" in lines[0] else lines[0]
    # The text of a KeyError is the missing key alone.
    if isinstance(error, KeyError):
        line = f"KeyError {line}"
    return line.rstrip(".")
