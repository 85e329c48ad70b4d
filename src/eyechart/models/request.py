"""How a model is wanted: where, in which precision, and what the user says of it."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Request:
    """What an adapter is told besides the model's name.

    `half`: whether bfloat16 was asked for, None if nothing was said. `trust`: whether files may be
    read that can run code, which is only ever true if the user said so. `prompt` and `class_names`
    are for models that compare pictures with texts. `download`: whether weights may be fetched that
    are not there yet.
    """

    device: torch.device
    half: bool | None = None
    trust: bool = False
    prompt: str | None = None
    class_names: tuple[str, ...] | None = None
    download: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """The precision for modules: as asked for, otherwise bfloat16 on a GPU alone."""
        wanted = self.device.type == "cuda" if self.half is None else self.half
        return torch.bfloat16 if wanted else torch.float32
