"""`onnx:FILE` and `tflite:FILE`: models in files that are run by onnxruntime and ai-edge-litert.

TensorFlow Lite models often have 8-bit weights, inputs and outputs.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.models.adapter import Request, Untyped, need
from eyechart.models.adapters.torch_files import Batches, input_side, read_model
from eyechart.models.model import Model, Preprocessing, as_usage_error, in_one_line

Numbers = NDArray[Untyped]

NUMBERS = {
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(uint8)": torch.uint8,
}
"""Supported input types; uint8 inputs receive gray levels from 0 to 255."""

PLACE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
"""The prefix of onnxruntime's error messages."""


def load_onnx(name: str, request: Request) -> Model:
    """Return the model in the file `name`."""
    runtime = need("onnxruntime", "onnx")
    path = Path(name)
    content = read_model(path)
    session = _open_onnx(runtime, path, request.device)
    source = _onnx_input(path, session)
    shape, channels_last = _layout(path, list(source.shape))
    height, width = shape[2:]
    side = input_side(
        path,
        (height, width),
        f"takes {height} × {width} px: export it for square images, or with dynamic height and"
        " width",
    )
    forward = Session(session, source, channels_last)
    batch = shape[0] if isinstance(shape[0], int) else None
    digest = hashlib.sha256(content)
    # Large models keep their weights in separate files, which the main file names.
    if b"location" in content:
        for near in sorted(path.parent.iterdir()):
            if near != path and near.name.encode() in content and near.is_file():
                digest.update(read_model(near))
    return Model(
        name,
        forward if batch is None else Batches(forward, batch, batch),
        request.device,
        identity=digest.hexdigest(),
        preprocessing=Preprocessing(side),
        fixed_side=side is not None,
    )


class Session:
    """An ONNX session as a function on float batches (B, 3, H, W)."""

    def __init__(self, session: Untyped, source: Untyped, channels_last: bool) -> None:
        self.session, self.channels_last = session, channels_last
        self.source, self.dtype = source.name, NUMBERS[source.type]
        outputs = session.get_outputs()
        # Some files have further outputs, such as features: take the first that is (B, K).
        flat = [output for output in outputs if len(output.shape or ()) == 2]
        self.target = (flat or outputs)[0].name

    def __call__(self, images: Tensor) -> object:
        """Return the scores, (B, K) if the model returns class scores."""
        if self.dtype == torch.uint8:
            images = (images * 255).round().clamp(0, 255)
        if self.channels_last:
            images = images.permute(0, 2, 3, 1)
        ready = images.to("cpu", self.dtype).contiguous().numpy()
        scores = self.session.run([self.target], {self.source: ready})[0]
        return torch.from_numpy(scores) if isinstance(scores, np.ndarray) else scores


def _open_onnx(runtime: ModuleType, path: Path, device: torch.device) -> Untyped:
    options = runtime.SessionOptions()
    # Only fatal errors are printed.
    options.log_severity_level = 4
    # onnxruntime would otherwise ignore the limit on threads that was set for torch.
    options.intra_op_num_threads = torch.get_num_threads()
    providers: list[str | tuple[str, dict[str, int]]] = ["CPUExecutionProvider"]
    if device.type == "cuda" and "CUDAExecutionProvider" in runtime.get_available_providers():
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": device.index or 0}))
    with as_usage_error(
        lambda error: (
            f"{path} is not an ONNX model that onnxruntime {runtime.__version__} can run:"
            f" {PLACE.sub('', in_one_line(error))}."
        )
    ):
        return runtime.InferenceSession(str(path), options, providers=providers)


def _onnx_input(path: Path, session: Untyped) -> Untyped:
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        shapes = ", ".join(str(tuple(source.shape)) for source in inputs)
        raise UsageError(
            f"{path} must take one batch of images (B, 3, H, W) or (B, H, W, 3), but it takes"
            f" {shapes}: export it with one input of this shape."
        )
    if inputs[0].type not in NUMBERS:
        raise UsageError(
            f"{path} must take float, float16 or uint8 numbers, but it takes {inputs[0].type}:"
            " export it for one of them."
        )
    return inputs[0]


def _layout(path: Path, shape: list[int | str | None]) -> tuple[list[int | str | None], bool]:
    """Return the shape as (B, 3, H, W), and whether the model takes (B, H, W, 3) instead."""
    if shape[1] == 3 or (not isinstance(shape[1], int) and shape[3] != 3):
        return shape, False
    if shape[3] == 3:
        return [shape[0], shape[3], shape[1], shape[2]], True
    raise UsageError(
        f"{path} must take color images (B, 3, H, W) or (B, H, W, 3), but it takes"
        f" {tuple(shape)}: export it for three channels."
    )


@dataclass(frozen=True)
class Tensor8:
    """An input or output: its index, its data type, and its quantization x = scale · (q − zero)."""

    index: int
    dtype: np.dtype[Untyped]
    scale: float
    zero: int

    @property
    def is_quantized(self) -> bool:
        """Whether the tensor stores real numbers as scaled integers."""
        return self.dtype.kind in "iu" and self.scale > 0

    def write(self, real: Numbers) -> Numbers:
        """Return real numbers converted to the tensor's representation."""
        if self.dtype.kind == "f":
            return real.astype(self.dtype)
        ends = np.iinfo(self.dtype)
        levels = np.rint(real / self.scale + self.zero)
        return np.clip(levels, ends.min, ends.max).astype(self.dtype)

    def read(self, held: Numbers) -> Numbers:
        """Return the tensor's values as real numbers, float32."""
        real = held.astype(np.float32)
        return (real - self.zero) * np.float32(self.scale) if self.is_quantized else real

    @property
    def is_softmax(self) -> bool:
        """Whether the tensor contains probabilities in steps of 1/256, whose sum is rarely 1."""
        # A probability of 0 is stored as the lowest integer.
        lowest = int(np.iinfo(self.dtype).min) if self.dtype.kind in "iu" else None
        return self.zero == lowest and abs(self.scale - 1 / 256) < 1e-6


def load_tflite(name: str, request: Request) -> Model:
    """Return the model in the file `name`."""
    need("ai_edge_litert", "tflite")
    path = Path(name)
    content = read_model(path)
    interpreter = _open_tflite(path, content)
    # 8-bit probabilities are too coarse to rank classes: see `with_logits`.
    if _described(interpreter.get_output_details()[0]).is_softmax:
        interpreter = _open_tflite(path, with_logits(content))
    source, shape = _tflite_input(path, interpreter)
    batch, height, width, _ = shape
    side = input_side(
        path,
        tuple(length if length > 0 else None for length in (height, width)),
        f"takes {height} × {width} px: convert it for square images",
    )
    return Model(
        name,
        Batches(Lite(interpreter, source, shape), max(batch, 1), max(batch, 1)),
        request.device,
        identity=hashlib.sha256(content).hexdigest(),
        preprocessing=raw_levels(source, side),
        fixed_side=side is not None,
    )


def raw_levels(source: Tensor8, side: int | None) -> Preprocessing:
    """Return the preprocessing that passes the image's gray levels to an 8-bit input.

    A network that was trained on (level − a)/b is converted with scale 1/b and zero point a, so its
    input numbers are the levels themselves (levels − 128 if signed). Float inputs get values in
    0…1.
    """
    if not source.is_quantized:
        return Preprocessing(side)
    lowest = int(np.iinfo(source.dtype).min)
    mean, std = (source.zero - lowest) / 255, 1 / (255 * source.scale)
    return Preprocessing(side, (mean, mean, mean), (std, std, std))


class Lite:
    """An interpreter as a function on float batches (n, 3, H, W) with a fixed n."""

    def __init__(self, interpreter: Untyped, source: Tensor8, shape: tuple[int, ...]) -> None:
        self.interpreter, self.source = interpreter, source
        self.target = _described(interpreter.get_output_details()[0])
        self.shape: tuple[int, ...] = ()
        self.fixed = shape
        if min(shape) > 0:
            self._resize(shape)

    def __call__(self, images: Tensor) -> object:
        """Return the scores, (n, K) if the model returns class scores."""
        ready = self.source.write(images.float().permute(0, 2, 3, 1).cpu().numpy())
        if ready.shape != self.shape:
            self._resize(ready.shape)
        self.interpreter.set_tensor(self.source.index, ready)
        self.interpreter.invoke()
        scores = self.target.read(self.interpreter.get_tensor(self.target.index))
        return torch.from_numpy(_normalized(scores) if self.target.is_softmax else scores)

    def _resize(self, shape: tuple[int, ...]) -> None:
        if shape != self.fixed:
            self.interpreter.resize_tensor_input(self.source.index, list(shape))
        with _silent():
            self.interpreter.allocate_tensors()
        self.shape = shape


def _normalized(scores: Numbers) -> Numbers:
    """Return the scores with each row scaled to sum to 1; a row of zeros becomes uniform."""
    sums = scores.sum(axis=-1, keepdims=True)
    even = np.full_like(scores, 1 / scores.shape[-1])
    return np.where(sums > 0, scores / np.where(sums > 0, sums, 1), even)


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress what the library prints to stderr from C++, such as the name of its delegate."""
    try:
        # C++ writes to the file descriptor, which contextlib.redirect_stderr does not redirect.
        kept = os.dup(2)
    except OSError:
        # There is no stderr at all.
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _open_tflite(path: Path, content: bytes) -> Untyped:
    lite = import_module("ai_edge_litert.interpreter")
    failed = f"{path} is not a TensorFlow Lite model that ai-edge-litert can run"
    with as_usage_error(lambda error: f"{failed}: {in_one_line(error)}."), _silent():
        return lite.Interpreter(model_content=content, num_threads=torch.get_num_threads())


def _tflite_input(path: Path, interpreter: Untyped) -> tuple[Tensor8, tuple[int, ...]]:
    """Return the input and its shape, with −1 for dynamic dimensions."""
    inputs = interpreter.get_input_details()
    shape = tuple(int(size) for size in inputs[0]["shape_signature"]) if inputs else ()
    if len(inputs) != 1 or len(shape) != 4 or shape[3] not in (3, -1):
        shapes = ", ".join(str(tuple(map(int, source["shape"]))) for source in inputs)
        raise UsageError(
            f"{path} must take one batch of images (B, H, W, 3), but it takes {shapes or 'none'}:"
            " convert it with one input of this shape."
        )
    source = _described(inputs[0])
    if source.dtype.kind in "iu" and not source.is_quantized:
        # Without quantization parameters, the numbers are the gray levels.
        source = replace(source, scale=1 / 255, zero=int(np.iinfo(source.dtype).min))
    if source.dtype not in (np.uint8, np.int8, np.float32):
        raise UsageError(
            f"{path} must take uint8, int8 or float32 numbers, but it takes {source.dtype}:"
            " convert it for one of them."
        )
    return source, shape


def _described(details: dict[str, Untyped]) -> Tensor8:
    scale, zero = details["quantization"]
    return Tensor8(details["index"], np.dtype(details["dtype"]), float(scale), int(zero))


def with_logits(content: bytes) -> bytes:
    """Return a model file that outputs logits: if there is a final softmax, it is bypassed.

    If probabilities are stored in steps of 1/256, most of them are 0 and many are equal; logits
    distinguish the classes even in 8 bits. Requantization steps may follow the softmax. Nothing
    else is changed, and the file keeps its length.
    """
    schema: Untyped = import_module("ai_edge_litert.schema_py_generated")
    # Mutable, because the last step writes into it through a view.
    held = bytearray(content)
    model = schema.Model.GetRootAs(held, 0)
    graph = model.Subgraphs(0)
    made_by = {
        int(tensor): step
        for step in map(graph.Operators, range(graph.OperatorsLength()))
        for tensor in step.OutputsAsNumpy()
    }
    # This is a view: writing to it changes the file.
    outputs = graph.OutputsAsNumpy()
    step = made_by.get(int(outputs[0]))
    while step is not None and _kind(model, step) == schema.BuiltinOperator.QUANTIZE:
        step = made_by.get(int(step.Inputs(0)))
    if step is None or _kind(model, step) != schema.BuiltinOperator.SOFTMAX:
        return content
    options = schema.SoftmaxOptions()
    table = step.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    # With a beta other than 1, the softmax's input is a multiple of the logits.
    if options.Beta() != 1:
        return content
    outputs[0] = step.Inputs(0)
    return bytes(held)


def _kind(model: Untyped, step: Untyped) -> int:
    """Return the code of the TensorFlow Lite operator that a step applies."""
    code = model.OperatorCodes(step.OpcodeIndex())
    # Old files only have the deprecated field; new files may only have the new one.
    return max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))
