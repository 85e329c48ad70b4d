"""A model as the rest of eyechart sees it: 8-bit pictures in, class scores out."""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

from eyechart.core.arguments import as_flag
from eyechart.core.errors import UsageError
from eyechart.images.image_types import to_rgb_levels
from eyechart.labels.categories import CLASSES
from eyechart.models.label_map import LabelMap
from eyechart.models.preprocessing import Preprocessing

Answer = Callable[[Tensor], object]
"""What is wrapped: anything that takes a float batch (B, 3, H, W)."""


class Model:
    """Anything that classifies pictures, with its name and what it wants done to a picture first.

    `identity` tells whether it is the same model again: a sha-256 of its weights, or "" where
    nothing can be known (a plain function). `classes` is the number of its outputs, None until the
    first call shows it. `promise`: the share of ImageNet's validation set that its makers say it
    gets right. `class_names`: what its outputs are, where they are not ImageNet's classes.
    `fixed_side`: whether it takes pictures of no other side than its preprocessing makes.
    `trained_on`: the corruptions that it is known to have met in training, by name.
    """

    def __init__(
        self,
        name: str,
        answer: Answer,
        device: torch.device | str = "cpu",
        *,
        identity: str = "",
        classes: int | None = None,
        preprocessing: Preprocessing | None = None,
        dtype: torch.dtype = torch.float32,
        promise: float | None = None,
        class_names: tuple[str, ...] | None = None,
        fixed_side: bool = False,
    ) -> None:
        self.name = name
        self.promise = promise
        self.class_names = class_names
        self.identity = identity
        self.classes = classes
        self.fixed_side = fixed_side
        self.trained_on: tuple[str, ...] = ()
        self.label_map: LabelMap | None = None
        self._offered: tuple[LabelMap, ...] = ()
        self._outputs: int | None = None
        self.device = torch.device(device)
        self.dtype = dtype
        self.preprocessing = preprocessing or Preprocessing()
        self._answer = answer
        # The layout that `prepared` gives a module's weights; others get the usual one.
        module = isinstance(answer, nn.Module)
        self._layout = torch.channels_last if module else torch.contiguous_format

    @property
    def side(self) -> int | None:
        """The height and width that pictures are resized to, in pixels; None: as they come."""
        return self.preprocessing.side

    @property
    def has_imagenet(self) -> bool:
        """Whether its classes are ImageNet's 1,000, as far as anything is said of them."""
        return self.classes == CLASSES and self.class_names is None

    @property
    def module(self) -> nn.Module | None:
        """The torch module that answers, None if something else does."""
        return self._answer if isinstance(self._answer, nn.Module) else None

    def use_precision(self, dtype: torch.dtype) -> None:
        """Let the module, which must be one, compute in another precision."""
        assert self.module is not None, "only modules can be converted"
        prepared(self.module, self.device, dtype)
        self.dtype = dtype

    def with_steps(self, steps: Preprocessing) -> "Model":
        """Return the same network with another preprocessing."""
        other = copy(self)
        other.preprocessing = steps
        return other

    def use_map(self, label_map: LabelMap) -> None:
        """Let the outputs be what the map says; the first call shows whether there are as many."""
        self.label_map, self._offered, self.classes = label_map, (), None

    def offer_maps(self, maps: Sequence[LabelMap]) -> None:
        """Let the outputs be what the first of the maps says that has as many, if one has."""
        if self.label_map is None:
            self._offered = tuple(maps)

    def __call__(self, images: Any, wait: bool = True) -> Tensor:
        """Return the scores of images: float32, (B, K), on the device.

        `images`: of any kind that `corrupt` takes, as they are before normalisation, which is the
        model's own. The scores are the model's own, logits or probabilities: see
        `log_probabilities`. Whoever does not `wait` for a GPU has to look by himself whether they
        are numbers, and `refuse`.
        """
        pictures, wait = to_rgb_levels(images), as_flag(wait, "wait")
        with torch.inference_mode():
            ready = self.preprocessing(pictures.to(self.device))
            ready = ready.to(self.dtype, memory_format=self._layout)
            scores = self._checked(self._run(ready), len(pictures))
            if wait and not bool(scores.isfinite().all()):
                raise self.refuse()
            return scores

    def refuse(self) -> UsageError:
        """Return the error for scores that are no numbers."""
        half = self.dtype != torch.float32
        hint = "try full precision" if half else "check its weights and its normalisation"
        return UsageError(
            f"Model '{self.name}' must return finite class scores, got NaN or infinity: {hint}."
        )

    def _run(self, ready: Tensor) -> object:
        try:
            return self._answer(ready)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            # Whoever called can try again with fewer pictures.
            if is_out_of_memory(error):
                raise
            if self._layout == torch.channels_last and "view size is not comp" in str(error):
                return self._run_contiguous(ready)
            if isinstance(error, TypeError) and "positional argument" in str(error):
                raise UsageError(
                    f"Model '{self.name}' must take a batch of pictures, and it does not"
                    f" ({in_one_line(error)}): if it makes a model, write () behind it."
                ) from error
            half = self.dtype != torch.float32
            hint = f" (it runs in {self.dtype}; full precision may help)" if half else ""
            raise UsageError(
                f"Model '{self.name}' failed on a {self.dtype} batch {tuple(ready.shape)}:"
                f" {in_one_line(error)}{hint}."
            ) from error

    def _run_contiguous(self, ready: Tensor) -> object:
        # Many a network says x.view(…), which only the usual layout allows: from now on that one.
        self._layout = torch.contiguous_format
        if isinstance(self._answer, nn.Module):
            lay_out(self._answer, self._layout)
        return self._run(ready.contiguous())

    def _checked(self, scores: object, count: int) -> Tensor:
        need = f"Model '{self.name}' must return class scores (B, K) with K of 2 or more"
        if isinstance(scores, nn.Module):
            raise UsageError(
                f"{need}, got a {type(scores).__name__}: if it makes a model, write () behind it."
            )
        if not isinstance(scores, Tensor):
            raise UsageError(
                f"{need}, got a {type(scores).__name__}: return the tensor of scores alone."
            )
        if scores.ndim != 2 or scores.shape[0] != count or scores.shape[1] < 2:
            raise UsageError(
                f"{need}, got {tuple(scores.shape)} for {count} pictures: return one row of scores"
                " for each."
            )
        if scores.is_complex() or scores.dtype == torch.bool:
            raise UsageError(f"{need}, got {scores.dtype}: return real numbers.")
        outputs = scores.shape[1]
        known = self._outputs or (None if self._is_mapped else self.classes)
        if known is not None and outputs != known:
            raise UsageError(
                f"{need}, always the same K, got {outputs} after {known}:"
                " return a score for every class, every time."
            )
        if self._outputs is None:
            self._settle(outputs)
        scores = scores.to(self.device, torch.float32)
        return scores if self.label_map is None else self.label_map(scores)

    @property
    def _is_mapped(self) -> bool:
        return self.label_map is not None or bool(self._offered)

    def _settle(self, outputs: int) -> None:
        """Decide what so many outputs stand for, once, at the first call."""
        label_map = self.label_map or next((m for m in self._offered if m.length == outputs), None)
        if label_map is not None and label_map.length != outputs:
            raise UsageError(
                f"The label map {label_map.source} has {label_map.length:,} lines, but the model"
                f" '{self.name}' {outputs:,} outputs: give a map with a line for each."
            )
        if label_map is not None:
            self.label_map, self.class_names = label_map, label_map.names
            self.mark(label_map.picked, label_map.names)
        self.classes = outputs if label_map is None else len(label_map.picked)
        if self.class_names is not None and len(self.class_names) != self.classes:
            raise UsageError(
                f"{len(self.class_names):,} class names were given, but the model '{self.name}' has"
                f" {self.classes:,} outputs: give a name for each."
            )
        self._outputs = outputs

    def mark(self, *settings: object) -> None:
        """Let the identity depend on settings too, where there is one."""
        if self.identity:
            content = f"{self.identity} {settings!r}"
            self.identity = hashlib.sha256(content.encode()).hexdigest()


def prepared(module: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Return the module itself, made ready to answer: on the device, in `dtype`, not training.

    Its weights are laid out channels-last, in which convolutions are faster.
    """
    module = module.to(device, dtype).eval()
    lay_out(module, torch.channels_last)
    return module


def lay_out(module: nn.Module, layout: torch.memory_format) -> None:
    """Lay the weights of convolutions out so in memory."""
    for parameter in module.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)


def identity_of(module: nn.Module) -> str:
    """Return the sha-256 of a module's weights and of the kinds of its parts, in hexadecimal.

    A module without any tensor has none, "": what it does is only in its code.
    """
    digest = hashlib.sha256()
    for name, part in module.named_modules():
        digest.update(f"{name}:{type(part).__qualname__};".encode())
    tensors = {k: v for k, v in module.state_dict().items() if isinstance(v, Tensor)}
    for name, tensor in tensors.items():
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        # Seen as bytes, since NumPy has no bfloat16.
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest() if tensors else ""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on a GPU or in the CPU's allocator."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # The CPU's allocator, and TorchScript around either, raise a plain RuntimeError.
    signs = ("not enough memory", "can't allocate memory", "out of memory")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)


def in_one_line(error: BaseException) -> str:
    """Return the line of an error that says most, without a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # TorchScript opens with a heading and a traceback; what happened is said last.
    line = lines[-1] if "TorchScript interpreter" in lines[0] else lines[0]
    if isinstance(error, KeyError):
        line = f"KeyError {line}"
    return line.rstrip(".")
