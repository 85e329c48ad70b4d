"""Loading from any model zoo: no downloads or unpickling by default, and one-sentence errors.

Each zoo's adapter determines the model and the meaning of its outputs.
"""

import difflib
import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from torch import nn

from eyechart.core.errors import UsageError
from eyechart.models.adapter import Request, Untyped
from eyechart.models.adapters.torch_files import quiet, unpickling
from eyechart.models.label_map import meaning_of
from eyechart.models.model import (
    INTERPOLATIONS,
    Model,
    Preprocessing,
    as_usage_error,
    identity_of,
    in_one_line,
    prepared,
)

# A context variable, so that only the thread that loads a model is kept offline.
_offline = ContextVar("_offline", default=False)


class OfflineError(ConnectionError):
    """A model zoo tried to access the internet, which was not allowed."""


@contextmanager
def zoo(spec: str, request: Request, repository: bool = False) -> Iterator[None]:
    """Let a zoo load the model `spec`; any failure is raised as a single UsageError.

    Without `request.download` no connection is made: weights must already be on this machine.
    Without `request.trust` only tensors are unpickled, even if the zoo requests more. `repository`:
    whether the model is a repository; a missing file then means that the model was not
    downloaded.
    """
    with (
        as_usage_error(lambda error: _sentence(spec, request, error, repository)),
        _network(request.download),
        unpickling(request.trust),
        quiet(),
    ):
        yield


def _sentence(spec: str, request: Request, error: BaseException, repository: bool) -> str:
    # Libraries wrap the most specific error in others, so the whole chain is searched.
    chain = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    kinds = {kind.__name__ for cause in chain for kind in type(cause).__mro__}
    message = " ".join(str(cause) for cause in chain)
    if not request.trust and "Unsupported global" in message:
        return (
            f"The weights of {spec} are in a file that can run code when loaded: add --trust if you"
            " trust its author."
        )
    if (
        kinds & {"UnpicklingError", "SafetensorError", "EOFError"}
        or "PytorchStreamReader" in message
    ):
        return f"The weights file of {spec} is damaged or incomplete: download it again."
    absent = {"OfflineError", "LocalEntryNotFoundError"} | ({"OSError"} if repository else set())
    if not request.download and kinds & absent:
        return f"The weights of {spec} are not on this machine: add --download to download them."
    if kinds & {"RepositoryNotFoundError", "HFValidationError"}:
        return f"There is no model {spec}: check the name of the repository."
    if kinds & {"ConnectionError", "ConnectError", "URLError", "OfflineModeIsEnabled"}:
        return (
            f"The weights of {spec} cannot be downloaded: {in_one_line(chain[-1])}; check the"
            " network connection."
        )
    return f"Cannot load {spec}: {in_one_line(error)}."


@contextmanager
def _network(allowed: bool) -> Iterator[None]:
    """Prevent this thread from accessing the network, unless allowed."""
    if allowed:
        yield
        return
    _install_hook()
    # The hub's own switch makes it use its cache at once instead of retrying.
    hub = sys.modules.get("huggingface_hub.constants")
    before = getattr(hub, "HF_HUB_OFFLINE", None)
    token = _offline.set(True)
    try:
        if hub is not None:
            hub.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
        yield
    finally:
        _offline.reset(token)
        if hub is not None:
            hub.HF_HUB_OFFLINE = before  # type: ignore[attr-defined]


@cache
def _install_hook() -> None:
    """Reject connections inside `_network`, once, because an audit hook cannot be removed."""

    # Zoos download in many ways, but an audit hook intercepts all of them.
    def reject_connections(event: str, arguments: tuple[object, ...]) -> None:
        if event not in ("socket.getaddrinfo", "socket.connect") or not _offline.get():
            return
        # A path instead of an address is a local socket.
        if event == "socket.getaddrinfo" or isinstance(arguments[1], tuple):
            raise OfflineError("no connection without --download")

    sys.addaudithook(reject_connections)


def build_model(
    spec: str,
    module: nn.Module,
    request: Request,
    steps: Preprocessing,
    *,
    published_accuracy: float | None = None,
    labels: Sequence[str] | None = None,
    also: str = "",
    network: nn.Module | None = None,
) -> Model:
    """Return the zoo's module as a `Model`, identified by its weights and these settings.

    `labels`: the zoo's names for the outputs, None if they are ImageNet's. `also`: other settings
    that affect the scores. `network`: a larger network that contains the module; if given, the
    identity is computed from all of its weights.
    """
    digest = hashlib.sha256(identity_of(network or module).encode())
    label_map, names = meaning_of(labels, spec) if labels is not None else (None, None)
    digest.update(repr((steps, names, also)).encode())
    model = Model(
        spec,
        prepared(module, request.device, request.dtype),
        request.device,
        identity=digest.hexdigest(),
        preprocessing=steps,
        dtype=request.dtype,
        published_accuracy=published_accuracy,
        class_names=names,
    )
    if label_map is not None:
        model.use_map(label_map)
    return model


def square(spec: str, height: int, width: int) -> int:
    """Return the side of a model's input, which must be square like the stimulus."""
    if height != width:
        raise UsageError(
            f"{spec} takes images of {height} × {width} px, but the stimulus is square: give a"
            " model with a square input."
        )
    return int(height)


def normalizing(
    spec: str, size: Sequence[int], mean: Untyped, std: Untyped, method: str
) -> Preprocessing:
    """Return a zoo's preprocessing: input size, means and deviations, and its interpolation."""
    return Preprocessing(square(spec, *size), tuple(mean), tuple(std), interpolation(method))


def interpolation(name: str) -> str:
    """Return eyechart's name for a zoo's interpolation; "random" (for training) is bicubic."""
    name = {"nearest-exact": "nearest"}.get(name, name)
    # Lanczos and others: bicubic is the closest that tensors support.
    return name if name in INTERPOLATIONS else "bicubic"


def unknown_of_many(kind: str, name: str, known: Sequence[str], where: str) -> UsageError:
    """Return the error for an unknown name, which suggests similar names or says where to look.

    Case is ignored when names are compared, since zoos use capitals.
    """
    spelt = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), spelt, n=2)
    # Too many to list all of them.
    if not near and len(known) > 40:
        return UsageError(f"Unknown {kind} '{name}': {where} lists the known names.")
    names = " or ".join(f"'{spelt[one]}'" for one in near)
    hint = f"Did you mean {names}?" if near else f"Known: {', '.join(sorted(known))}."
    return UsageError(f"Unknown {kind} '{name}'. {hint}")
