"""Devices: find a device by name, get its free memory, and check for Triton."""

import os
from contextlib import AbstractContextManager, nullcontext, suppress
from ctypes import CDLL
from functools import cache
from importlib.util import find_spec
from math import inf
from pathlib import Path

import torch

from eyechart.core.arguments import short_repr
from eyechart.core.errors import UsageError

MAX_KEPT = 2**30
"""Maximum size in bytes of a freed block of memory that is kept."""


AUTO, MPS, ALL = "auto", "mps", "cuda:all"


def find_device(name: str | torch.device, can_be_mps: bool = False) -> torch.device:
    """Return the device called `name` ("cpu", "cuda", "cuda:1"); raise if it is not available.

    Args:
        name: The device; "auto" selects CUDA if it is available, otherwise Apple's MPS or the CPU.
        can_be_mps: Whether the caller only runs networks on the device. MPS has no 64-bit floats,
            which corruptions and Δv need.
    """
    if not isinstance(name, str | torch.device):
        raise UsageError(f"device must be a name such as cpu or cuda, got {short_repr(name)}.")
    if name == AUTO:
        has_mps = can_be_mps and torch.backends.mps.is_available()
        name = "cuda" if torch.cuda.is_available() else MPS if has_mps else "cpu"
    supported = "auto, mps, cpu or cuda" if can_be_mps else "auto, cpu or cuda"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"Unknown device {short_repr(name)}: use {supported}.") from None
    if device.type not in ("cpu", "cuda", *([MPS] if can_be_mps else [])):
        raise UsageError(f"Device '{name}' is not supported: use {supported}.")
    if device.type == MPS and not torch.backends.mps.is_available():
        raise UsageError("Device 'mps' is not available (it needs an Apple GPU); use cpu.")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise UsageError(
                f"Device '{name}' is not available ({count} CUDA devices found); use cpu."
            )
        # Triton kernels and CUDA events use the current device, not that of their tensors
        torch.cuda.set_device(device.index or 0)
    return device


def device_title(device: torch.device) -> str:
    """Return the name of a device, followed by the model of the GPU."""
    is_cuda = device.type == "cuda"
    return f"{device} ({torch.cuda.get_device_name(device)})" if is_cuda else str(device)


def split_devices(text: str | torch.device) -> tuple[str, ...]:
    """Return the names in a list of devices such as "cuda:0,cuda:1"; "cuda:all" is all GPUs.

    Example:
        >>> split_devices("cuda:0, cuda:1")
        ('cuda:0', 'cuda:1')
    """
    if isinstance(text, torch.device):
        return (str(text),)
    if not isinstance(text, str):
        raise UsageError(f"device must be a name such as cpu or cuda, got {short_repr(text)}.")
    if text == ALL:
        # at least one, so that `find_device` reports a machine without GPUs
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return tuple(f"cuda:{index}" for index in range(max(count, 1)))
    return tuple(name.strip() for name in text.split(","))


def find_devices(text: str | torch.device) -> tuple[torch.device, ...]:
    """Return the devices in a list such as "cuda:0,cuda:1"; raise if they cannot work together."""
    names = split_devices(text)
    # the last call sets the current GPU, which must be the first of the list
    devices = [find_device(name, can_be_mps=len(names) == 1) for name in reversed(names)][::-1]
    if len({device.type for device in devices}) > 1:
        raise UsageError(
            f"The devices of one run must be of one type, got '{text}': their scores differ."
        )
    if devices[0].type == "cuda" and len({device.index or 0 for device in devices}) < len(devices):
        raise UsageError(f"Each GPU must be given once, got '{text}'.")
    return tuple(devices)


def image_device(device: torch.device) -> torch.device:
    """Return the device for corruptions and Δv: the network's device, but the CPU for MPS."""
    return torch.device("cpu") if device.type == MPS else device


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on a device, without waiting for a GPU to finish its work."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    # only copies from pinned memory are asynchronous
    return tensor.pin_memory().to(device, non_blocking=True)


def in_stream(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    """Return a context in which a GPU works in this stream; None changes nothing."""
    # torch.cuda.stream(None) would look for a GPU, even where none is used
    return nullcontext() if stream is None else torch.cuda.stream(stream)


@cache
def stream_beside(device: torch.device) -> torch.cuda.Stream | None:
    """Return the CUDA stream of a device for everything but the models; None on a CPU.

    There is one for each device, because memory that a stream has freed is kept for that stream.
    """
    if device.type != "cuda":
        return None
    # a lower number is a higher priority: the next batch must be ready before this one is done
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


# cached, because find_spec searches the import path and every draw of random numbers calls this
@cache
def has_triton(device: torch.device) -> bool:
    """Return whether Triton kernels can run on the device."""
    return device.type == "cuda" and find_spec("triton") is not None


def keep_freed_memory() -> None:
    """Let the C library keep freed memory instead of returning it to the system.

    Batches of images are allocated and freed all the time. By default, glibc requests blocks of
    that size from the system each time, and clearing their pages took a third of the time of an
    evaluation on the CPU.
    """
    # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
    _set_malloc(-3, MAX_KEPT)
    _set_malloc(-1, MAX_KEPT)


def share_freed_memory() -> None:
    """Let threads that start from now on use the memory that others have freed.

    By default, glibc keeps memory for each thread separately, and returns it to the system in
    pieces of 64 MB, however much it should keep.
    """
    # M_ARENA_MAX of malloc.h
    _set_malloc(-8, 1)


def _set_malloc(parameter: int, value: int) -> None:
    with suppress(AttributeError, OSError, TypeError):  # other C libraries have no mallopt
        CDLL(None).mallopt(parameter, value)


def free_memory(device: torch.device) -> float:
    """Return the free memory in bytes; 4 GB if it cannot be determined.

    Containers and batch systems limit the memory of a job (by a control group of Linux) to less
    than what is free in the machine.
    """
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    free = 4e9
    with suppress(AttributeError, ValueError, OSError):
        free = float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(free, _memory_limit(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")))


def _memory_limit(record: Path, root: Path) -> float:
    """Return the memory in bytes that the control groups of this process allow, or infinity.

    Args:
        record: the file that names the groups, /proc/self/cgroup.
        root: the folder of the groups, /sys/fs/cgroup.
    """
    limits = [inf]
    try:
        lines = record.read_text().splitlines()
    except OSError:  # not on Linux
        lines = []
    for line in lines:
        # "0::/job" (version 2) or "4:memory:/job" (version 1)
        _, controllers, name = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base, file = root, "memory.max"
        if controllers:
            base, file = root / "memory", "memory.limit_in_bytes"
        group = base / name.strip("/")
        # the limit of a group also holds for the groups in it
        for folder in (group, *group.parents):
            # in a container the groups above are not visible; "max" stands for no limit
            with suppress(OSError, ValueError):
                limits.append(float(int((folder / file).read_text())))
            if folder == base:
                break
    return min(limits)
