"""Training on several GPUs, with torch.distributed processes that torchrun starts."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from eyechart.core.errors import UsageError


def for_first(lock: AbstractContextManager[None]) -> AbstractContextManager[None]:
    """Return the lock in the first process; other processes share its file and need no lock."""
    return lock if is_first_process() else nullcontext()


@dataclass(frozen=True)
class ProcessGroup:
    """The device and the rank of this process, and the number of processes."""

    device: torch.device
    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """Return the module with gradients averaged over all processes."""
        if self.count == 1:
            return module
        return DistributedDataParallel(
            module, [self.device] if self.device.type == "cuda" else None
        )

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process."""
        if self.count == 1:
            return flag
        # A collective call: a process that skips it would leave the others waiting.
        n_set = torch.tensor([float(flag)], device=self.device)
        distributed.all_reduce(n_set)
        return bool(n_set.item())

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        if self.count > 1:
            distributed.barrier()


def is_first_process() -> bool:
    """Return whether this process is the only one, or the first one that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def own_device(device: torch.device) -> torch.device:
    """Return this process's GPU if torchrun started several processes, otherwise `device`."""
    # A device with an index was chosen by the user and is kept.
    if device.type != "cuda" or "LOCAL_RANK" not in os.environ or device.index is not None:
        return device
    local = int(os.environ["LOCAL_RANK"])
    if local >= torch.cuda.device_count():
        raise UsageError(
            f"torchrun started more processes than there are GPUs ({torch.cuda.device_count()}):"
            " give a smaller --nproc-per-node."
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


@contextmanager
def joined(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the process group that torchrun started; without torchrun there is only this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ProcessGroup(device)
        return
    # Several training runs may share one process group: only the run that created it ends it.
    outer = distributed.is_initialized()
    if not outer:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield ProcessGroup(device, distributed.get_rank(), distributed.get_world_size())
    finally:
        if not outer:
            distributed.destroy_process_group()
