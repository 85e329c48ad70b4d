"""The kinds of models that are named with a prefix, and the packages that each kind needs."""

import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, cast

import torch

from eyechart.core.errors import UsageError, install_hint
from eyechart.core.registry import Registry
from eyechart.models.model import Model, in_one_line

Untyped = Any
"""Type of objects from model zoos, since most zoos declare no types."""


@dataclass(frozen=True)
class Request:
    """The settings that an adapter gets in addition to the model's name.

    `half`: whether to use bfloat16, None if not specified. `trust`: whether files that can run code
    may be read; users must allow this explicitly. `prompt` and `class_names` are for models that
    compare images with texts. `download`: whether missing weights may be downloaded.
    """

    device: torch.device
    half: bool | None = None
    trust: bool = False
    prompt: str | None = None
    class_names: tuple[str, ...] | None = None
    download: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """The requested precision of modules; by default bfloat16 on a GPU, otherwise float32."""
        wanted = self.device.type == "cuda" if self.half is None else self.half
        return torch.bfloat16 if wanted else torch.float32


@dataclass(frozen=True)
class Adapter:
    """Loads `prefix:name` with a function (name, request), written "module:function" in `home`.

    `takes`: what the user writes after the colon. `extra`: the eyechart extra that installs its
    dependencies, "" if there are none. `packages`: importable packages; any one of them suffices.
    """

    prefix: str
    home: str
    takes: str
    summary: str
    extra: str = ""
    packages: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        """Whether one of the required packages is installed; nothing is imported."""
        return not self.packages or any(find_spec(package) for package in self.packages)

    def load(self, name: str, request: Request) -> Model:
        """Return the model with this name; the module in `home` is only imported by this call."""
        module, _, function = self.home.partition(":")
        load = getattr(import_module(f"eyechart.models.adapters.{module}"), function)
        return cast(Model, load(name, request))


ADAPTERS: Registry[Adapter] = Registry("kind of model")

for _adapter in (
    Adapter(
        "timm",
        "classifier_zoos:load_timm",
        "NAME",
        "timm, with its data configuration",
        "timm",
        ("timm",),
    ),
    Adapter(
        "torchvision",
        "classifier_zoos:load_torchvision",
        "NAME[/WEIGHTS]",
        "torchvision, with the transforms of its weights",
        "torchvision",
        ("torchvision",),
    ),
    Adapter(
        "hf",
        "transformers_models:load_hf",
        "REPO or FOLDER",
        "transformers' image classifiers, with their processor",
        "hf",
        ("transformers",),
    ),
    Adapter(
        "clip",
        "transformers_models:load_clip",
        "NAME[/WEIGHTS], REPO or FOLDER",
        "images compared with class names, by open_clip or transformers",
        "clip",
        ("open_clip", "transformers"),
    ),
    Adapter(
        "dinov2",
        "transformers_models:load_dinov2",
        "SIZE, REPO or FOLDER[/ENTRY]",
        "DINOv2 with its linear head, by transformers or torch hub",
        "hf",
        ("transformers",),
    ),
    Adapter(
        "robustbench",
        "classifier_zoos:load_robustbench",
        "NAME",
        "RobustBench's models for ImageNet",
        "robustbench",
        ("robustbench",),
    ),
    Adapter(
        "onnx",
        "runtime_files:load_onnx",
        "FILE",
        "an ONNX file, by onnxruntime",
        "onnx",
        ("onnxruntime",),
    ),
    Adapter(
        "tflite",
        "runtime_files:load_tflite",
        "FILE",
        "a TensorFlow Lite file, by ai-edge-litert",
        "tflite",
        ("ai_edge_litert",),
    ),
    Adapter("python", "python_object:load", "module:attribute", "a custom module or function"),
):
    ADAPTERS.add(_adapter.prefix, _adapter)


def need(package: str, prefix: str, *parts: str) -> ModuleType:
    """Return a package that an adapter needs, or raise an error with the command to install it.

    `parts`: attributes that will be used; they are checked because some packages import lazily.
    """
    try:
        # Zoos emit deprecation warnings while they are imported.
        with warnings.catch_warnings(action="ignore"):
            module = import_module(package)
            for part in parts:
                getattr(module, part)
        return module
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            # The package may be installed and lack one of its own dependencies: name both.
            whose = package.partition(".")[0]
            if error.name.partition(".")[0] != whose:
                whose = f"{whose} with {error.name}"
            extra = ADAPTERS[prefix].extra
            raise UsageError(f"{prefix}: needs {whose}: {install_hint(extra)}.") from None
        # The first cause is the most specific; packages wrap it in general import errors.
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        # A torchvision built for a different torch is the usual cause, and needs a different fix.
        advice = "install it again"
        if "torchvision" in str(cause):
            advice = "install matching builds of torch and torchvision"
        raise UsageError(
            f"{prefix}: needs {package.partition('.')[0]}, which is installed but cannot be"
            f" imported ({in_one_line(cause)}): {advice}."
        ) from error
