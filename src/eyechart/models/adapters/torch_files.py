"""Models from torch files: TorchScript, exported programs, and trusted pickles."""

import hashlib
import logging
import os
import pickle
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.models.adapter import Request
from eyechart.models.adapters.python_object import from_object
from eyechart.models.checkpoint import LoadBase, checkpoint_of, is_checkpoint, model_of
from eyechart.models.model import (
    Forward,
    Model,
    Preprocessing,
    as_usage_error,
    in_one_line,
    prepared,
)

TORCH_SUFFIXES = (".pt", ".pth", ".th", ".ts", ".torchscript", ".pt2")

RUNS_CODE = ("custom_obj_", "opaque_obj_")
"""Prefixes of the parts of an exported program that are unpickled without restrictions."""

FORCE, FORBID = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""The environment variables that override the `weights_only` argument of `torch.load`."""


def load_file(name: str, request: Request, load_base: LoadBase) -> Model:
    """Return the model in a file; `load_base` loads the base model of a checkpoint.

    TorchScript only uses half precision if it is requested. An exported program computes in the
    precision with which it was exported.
    """
    path, device = Path(name), request.device
    identity = hashlib.sha256(read_model(path)).hexdigest()
    with as_usage_error(
        lambda error: (
            f"Cannot load the model {path}: {in_one_line(error)}; save it again with this"
            f" version of torch, {torch.__version__}."
        )
    ):
        kind = _kind(path)
        if kind == "exported":
            return _load_exported(path, name, identity, request)
        if kind == "pickle":
            return _load_pickle(path, name, request, load_base)
        with warnings.catch_warnings():
            # Existing files must stay readable, although new ones should use a different format.
            warnings.filterwarnings("ignore", r"`torch\.jit\.load`", DeprecationWarning)
            script = torch.jit.load(str(path), map_location=device)  # type: ignore[no-untyped-call]
        dtype = torch.bfloat16 if request.half else torch.float32
        forward = prepared(script, device, dtype)
    return Model(name, forward, device, identity=identity, dtype=dtype)


def read_model(path: Path) -> bytes:
    """Return the bytes of a model's file."""
    try:
        return regular_file(path).read_bytes()
    except OSError as error:
        raise UsageError(f"Cannot read the model {path}: {error.strerror}.") from None


def input_side(path: Path, size: tuple[object, ...], advice: str) -> int | None:
    """Return the side of the square images that a file takes, None if it takes any size.

    `size`: height and width; dynamic ones are names, symbols or None, not integers.
    """
    fixed = [length for length in size if isinstance(length, int)]
    if len(set(fixed)) > 1:
        raise UsageError(f"{path} must take square images, but {advice}.")
    return fixed[0] if fixed else None


def _kind(path: Path) -> str:
    """Return "script", "exported" or "pickle" based on the file's contents, since suffixes vary."""
    try:
        with zipfile.ZipFile(regular_file(path)) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        names = []
    # The archive's top folder is named after the file, so only the rest of each path is fixed.
    last = {name.rsplit("/", 1)[-1] for name in names}
    if "archive_format" in last or "serialized_exported_program.json" in last:
        return "exported"
    if "constants.pkl" in last and any("/code/" in name for name in names):
        return "script"
    with regular_file(path).open("rb") as file:
        # Files from old versions of torch.save, before zip archives, start with this pickle opcode.
        if "data.pkl" in last or file.read(1) == b"\x80":
            return "pickle"
    raise UsageError(
        f"{path} is not a model: give TorchScript, an exported program, ONNX or TensorFlow Lite."
    )


def _load_pickle(path: Path, name: str, request: Request, load_base: LoadBase) -> Model:
    """Return the checkpoint in a pickle or, if trusted, the module; weights alone are rejected."""
    # torch warns about bare pickles; the error below covers that.
    with warnings.catch_warnings(action="ignore"):
        try:
            held = torch.load(regular_file(path), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            if not request.trust:
                raise _distrust(path) from None
            try:
                held = torch.load(regular_file(path), map_location="cpu", weights_only=False)
            except (AttributeError, ModuleNotFoundError) as error:
                raise UsageError(
                    f"{path} needs the code of its class ({in_one_line(error)}): save TorchScript"
                    " or an exported program, or give the model as module:attribute."
                ) from None
    if is_checkpoint(held):
        return model_of(checkpoint_of(held, path), name, request, load_base)
    if isinstance(held, nn.Module):
        return from_object(held, name, request, is_new=True)
    raise UsageError(
        f"{path} contains an object of type {type(held).__name__}, not a model: if these are"
        " weights, write a small Python file that builds the model and loads them, and give it as"
        " module:attribute."
    )


def _distrust(path: Path) -> UsageError:
    return UsageError(
        f"{path} is a pickle, which can run code when it is loaded: give --trust if you trust"
        " its author. Otherwise, save the model as TorchScript or as an exported program, or give"
        " it as module:attribute."
    )


def _load_exported(path: Path, name: str, identity: str, request: Request) -> Model:
    from torch.export.passes import move_to_device_pass

    if not request.trust:
        with zipfile.ZipFile(regular_file(path)) as archive:
            parts = archive.namelist()
        # These parts are loaded without the protection of weights_only.
        if any(n.rsplit("/", 1)[-1].startswith(RUNS_CODE) or "/aotinductor/" in n for n in parts):
            raise _distrust(path)
    # The logs would have the traceback of an error that is raised anyway.
    with quiet(logging.ERROR), unpickling(request.trust):
        try:
            program = torch.export.load(str(path))
        except pickle.UnpicklingError:
            raise _distrust(path) from None
    program = move_to_device_pass(program, str(request.device))
    names = program.graph_signature.user_inputs
    values = [
        node.meta["val"]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in names
    ]
    if len(values) != 1 or not isinstance(values[0], Tensor) or values[0].ndim != 4:
        raise UsageError(
            f"{path} must take one batch of images (B, 3, H, W), but was exported with"
            f" {len(names)} inputs or a different shape: export it with one example input of this "
            "shape."
        )
    example = values[0]
    height, width = example.shape[2:]
    side = input_side(
        path,
        (height, width),
        f"was exported for {height} × {width} px: export it for square images, or with dynamic"
        " height and width",
    )
    min_batch, max_batch = _batch_limits(program, example.shape[0])
    return Model(
        name,
        Batches(program.module(), min_batch, max_batch),
        request.device,
        identity=identity,
        preprocessing=Preprocessing(side),
        dtype=example.dtype,
        fixed_side=side is not None,
    )


def _batch_limits(program: ExportedProgram, size: int | torch.SymInt) -> tuple[int, int | None]:
    """Return the minimum and maximum batch size that the program accepts; None means no maximum."""
    if isinstance(size, int):
        return size, size
    limits = program.range_constraints.get(size.node.expr)
    if limits is None:
        return 1, None
    # A missing upper limit is a symbol for infinity, not an integer.
    min_batch = int(limits.lower) if limits.lower.is_Integer else 1
    return min_batch, int(limits.upper) if limits.upper.is_Integer else None


class Batches:
    """Wraps a program with limits on its batch size, so that it accepts any number of images."""

    def __init__(self, program: Forward, min_batch: int, max_batch: int | None) -> None:
        self.program, self.min_batch, self.max_batch = program, max(min_batch, 1), max_batch

    def __call__(self, images: Tensor) -> object:
        """Return the scores of any number of images, (B, K)."""
        results = []
        # torch.split rejects parts of size 0.
        for part in torch.split(images, self.max_batch or max(len(images), 1)):
            # Fill up a small batch with copies of the last image, whose scores are dropped again.
            missing = max(self.min_batch - len(part), 0)
            filled = torch.cat([part, part[-1:].expand(missing, -1, -1, -1)])
            result = self.program(filled)
            if not isinstance(result, Tensor) or result.shape[:1] != filled.shape[:1]:
                return result  # rejected by `Model`
            results.append(result[: len(part)])
        return torch.cat(results)


@contextmanager
def quiet(level: int = logging.WARNING) -> Iterator[None]:
    """Suppress warnings, and logs up to this level; errors are still raised."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


@contextmanager
def unpickling(trust: bool) -> Iterator[None]:
    """Make every `torch.load` read arbitrary objects, including code, or only tensors.

    Its arguments do not matter: zoos, which call it themselves, may request more.
    """
    # torch rejects both variables at once, so the other one is removed temporarily.
    before = {key: os.environ.pop(key, None) for key in (FORCE, FORBID)}
    os.environ[FORBID if trust else FORCE] = "1"
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value
