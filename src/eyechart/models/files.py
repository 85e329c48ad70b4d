"""Models from files: TorchScript, and what torch.export wrote. Nothing else is unpickled."""

import hashlib
import logging
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from eyechart.core.errors import UsageError
from eyechart.models.model import Answer, Model, in_one_line, is_out_of_memory, prepared
from eyechart.models.preprocessing import Preprocessing, read_sidecar

SUFFIXES = (".pt", ".pth", ".ts", ".torchscript", ".pt2")


def load_file(name: str, device: torch.device, half: bool) -> Model:
    """Return the model in a file, with the preprocessing of the sidecar beside it, if any.

    `half` is for TorchScript; an exported program computes in the precision it was exported in.
    """
    path = Path(name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"Cannot read the model {path}: {error.strerror}.") from None
    digest = hashlib.sha256(content)
    sidecar = path.with_suffix(".yaml")
    steps = Preprocessing()
    if sidecar.exists():
        steps = read_sidecar(sidecar)
        digest.update(repr(steps).encode())
    kind = _kind(path)
    dtype = torch.bfloat16 if half else torch.float32
    answer: Answer
    try:
        if kind == "script":
            answer = prepared(_load_script(path, device), device, dtype)
        else:
            answer, steps, dtype = _load_exported(path, device, steps)
    except UsageError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(
            f"Cannot load the model {path}: {in_one_line(error)}; save it again with this version"
            f" of torch, {torch.__version__}."
        ) from error
    return Model(
        name, answer, device, identity=digest.hexdigest(), preprocessing=steps, dtype=dtype
    )


def _kind(path: Path) -> str:
    """Return "script" or "exported", by what is in the file: endings are only a custom."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        names = []
    last = {name.rsplit("/", 1)[-1] for name in names}
    if "archive_format" in last or "serialized_exported_program.json" in last:
        return "exported"
    if "constants.pkl" in last and any("/code/" in name for name in names):
        return "script"
    raise UsageError(
        f"{path} is neither TorchScript nor an exported program: if it holds weights, write a small"
        " Python file that builds the model and loads them, and give it as module:attribute."
    )


def _load_script(path: Path, device: torch.device) -> nn.Module:
    with warnings.catch_warnings():
        # Files that exist are to be read, whatever new ones should be written with.
        warnings.filterwarnings("ignore", r"`torch\.jit\.load`", DeprecationWarning)
        return torch.jit.load(str(path), map_location=device)  # type: ignore[no-untyped-call,no-any-return]


def _load_exported(
    path: Path, device: torch.device, steps: Preprocessing
) -> tuple[Answer, Preprocessing, torch.dtype]:
    from torch.export.passes import move_to_device_pass

    with _quiet_logging("torch.export"), warnings.catch_warnings():
        # Some versions of torch say so of their own reading.
        warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
        program = torch.export.load(str(path))
    program = move_to_device_pass(program, str(device))
    example = _only_input(path, program)
    height, width = example.shape[2:]
    for side in (height, width):
        if isinstance(side, int) and side != (steps.side or height):
            wanted = f"its sidecar says {steps.side}" if steps.side else "a square is needed"
            raise UsageError(
                f"{path} was exported for pictures of {height} × {width} pixels, but {wanted}:"
                " export it for others, or with dynamic height and width."
            )
    if isinstance(height, int):
        steps = replace(steps, side=height)
    least, most = _batch_limits(program, example.shape[0])
    return Batches(program.module(), least, most), steps, example.dtype


def _only_input(path: Path, program: ExportedProgram) -> Tensor:
    names = program.graph_signature.user_inputs
    values = [
        node.meta["val"]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in names
    ]
    if len(values) != 1 or not isinstance(values[0], Tensor) or values[0].ndim != 4:
        raise UsageError(
            f"{path} must take one batch of pictures (B, 3, H, W), but was exported with"
            f" {len(names)} inputs or another shape: export it with one such example."
        )
    return values[0]


def _batch_limits(program: ExportedProgram, size: int | torch.SymInt) -> tuple[int, int | None]:
    """Return how few and how many pictures the program takes at once; None: any number."""
    if isinstance(size, int):
        return size, size
    limits = program.range_constraints.get(size.node.expr)
    if limits is None:
        return 1, None
    # An open end is a symbol for infinity, not an integer.
    least = int(limits.lower) if limits.lower.is_Integer else 1
    return least, int(limits.upper) if limits.upper.is_Integer else None


class Batches:
    """A program that takes only some numbers of pictures, made to take any."""

    def __init__(self, program: Answer, least: int, most: int | None) -> None:
        self.program, self.least, self.most = program, max(least, 1), most

    def __call__(self, pictures: Tensor) -> object:
        """Return the scores of any number of pictures, (B, K)."""
        results = []
        for part in torch.split(pictures, self.most or max(len(pictures), 1)):
            missing = max(self.least - len(part), 0)
            filled = torch.cat([part, part[-1:].expand(missing, -1, -1, -1)])
            result = self.program(filled)
            if not isinstance(result, Tensor) or result.shape[:1] != filled.shape[:1]:
                return result  # for `Model` to refuse
            results.append(result[: len(part)])
        return torch.cat(results)


@contextmanager
def _quiet_logging(name: str) -> Iterator[None]:
    """Keep a logger still, where it would print the traceback of an error that is also raised."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
