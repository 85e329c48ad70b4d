"""Send prediction tasks, with their models, to other processes and machines.

A model is loaded again by the process that needs it if it has an origin; otherwise it is copied.
"""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TypeVar

import torch
from torch import nn

from eyechart.core.devices import image_device
from eyechart.core.errors import UsageError
from eyechart.models.model import Model, in_one_line, lay_out
from eyechart.predictions.loop import PredictionTask

Received = TypeVar("Received")


@dataclass(frozen=True)
class SentTask:
    """A prediction task as bytes; it contains no pixels of images that are read from files."""

    task: bytes
    models: tuple[bytes, ...]
    folder: str
    """The current directory of the sender, which relative paths start from."""

    def receive(self, device: torch.device) -> PredictionTask:
        """Return the task with its models on a device.

        Raises:
            UsageError: If the task or a model cannot be restored in this process.
        """
        # A machine of a cluster may not have this folder; absolute paths still work there.
        with suppress(OSError):
            os.chdir(self.folder)
        task: PredictionTask = _restored(lambda: pickle.loads(self.task), "The images")
        models = [_receive_model(content, device) for content in self.models]
        return replace(task, models=models, device=image_device(device))


def send_task(task: PredictionTask) -> SentTask:
    """Return a task in a form that can be sent to other processes.

    Raises:
        UsageError: If a model or the images cannot be sent.
    """
    # Without the cache of decoded images: the receiver reads the files that it needs.
    images = replace(task.images, kept={})
    try:
        content = pickle.dumps(replace(task, models=(), images=images))
    except Exception as error:
        raise _not_sent("The images", error) from error
    return SentTask(content, tuple(map(_send_model, task.models)), str(os.getcwd()))


def _send_model(model: Model) -> bytes:
    buffer = BytesIO()
    sent = copy(model)
    sent._forward = _not_loaded
    try:
        pickle.dump(sent, buffer)
        if model.origin is None:
            # Not pickled with the rest: torch.save lets the receiver choose the device.
            torch.save(model._forward, buffer)
    # Objects raise whatever they like when they cannot be pickled.
    except Exception as error:
        raise _not_sent(f"Model '{model.name}'", error) from error
    return buffer.getvalue()


def _receive_model(content: bytes, device: torch.device) -> Model:
    buffer = BytesIO(content)
    model: Model = _restored(lambda: pickle.load(buffer), "A model")
    model.device = device
    if model.origin is None:
        network = BytesIO(buffer.read())
        model._forward = _restored(
            lambda: torch.load(network, map_location=device, weights_only=False),
            f"Model '{model.name}'",
        )
        return model
    loaded = model.origin.load(device)
    if loaded.identity != model.origin.identity:
        raise UsageError(
            f"Model '{model.name}' has other weights in this process than when the run began: do"
            " not change its file during a run."
        )
    model._forward = loaded._forward
    # The first call may have changed the layout, and the user the precision.
    if isinstance(loaded._forward, nn.Module):
        if loaded.dtype != model.dtype:
            loaded.use_precision(model.dtype)
        lay_out(loaded._forward, model._layout)
    return model


def _not_loaded(_images: torch.Tensor) -> object:
    raise AssertionError("the network must be loaded first")


def _restored(restore: Callable[[], Received], what: str) -> Received:
    try:
        return restore()
    except Exception as error:
        raise _not_sent(what, error) from error


def _not_sent(what: str, error: BaseException) -> UsageError:
    return UsageError(
        f"{what} cannot be sent to another process ({in_one_line(error)}): give a name, a file or"
        " module:attribute instead of an object, or use one device and engine in-process."
    )
