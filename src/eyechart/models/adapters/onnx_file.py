"""`onnx:FILE`: models in the ONNX format, run by onnxruntime."""

import hashlib
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.models.adapter import Request, Untyped, need
from eyechart.models.adapters.torch_files import Batches, input_side, read_model
from eyechart.models.model import Model, in_one_line
from eyechart.models.preprocessing import Preprocessing

NUMBERS = {
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(uint8)": torch.uint8,
}
"""Supported input types; uint8 inputs receive gray levels from 0 to 255."""

PLACE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
"""The prefix of onnxruntime's error messages."""

QUIET = 4
"""The log level of onnxruntime at which only fatal errors are printed."""


def load(name: str, request: Request) -> Model:
    """Return the model in the file `name`."""
    runtime = need("onnxruntime", "onnx")
    path = Path(name)
    content = read_model(path)
    session = _open(runtime, path, request.device)
    source = _only_input(path, session)
    shape, channels_last = _layout(path, list(source.shape))
    height, width = shape[2:]
    advice = (
        f"takes {height} × {width} px: export it for square images, or with dynamic height and"
        " width"
    )
    side = input_side(path, height, width, advice)
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


def _open(runtime: ModuleType, path: Path, device: torch.device) -> Untyped:
    options = runtime.SessionOptions()
    options.log_severity_level = QUIET
    # onnxruntime would otherwise ignore the limit on threads that was set for torch.
    options.intra_op_num_threads = torch.get_num_threads()
    providers: list[str | tuple[str, dict[str, int]]] = ["CPUExecutionProvider"]
    if device.type == "cuda" and "CUDAExecutionProvider" in runtime.get_available_providers():
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": device.index or 0}))
    try:
        return runtime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:
        raise UsageError(
            f"{path} is not an ONNX model that onnxruntime {runtime.__version__} can run:"
            f" {PLACE.sub('', in_one_line(error))}."
        ) from error


def _only_input(path: Path, session: Untyped) -> Untyped:
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
