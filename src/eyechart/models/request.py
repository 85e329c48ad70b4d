"""How to load a model: device, precision and user-specified settings."""

from dataclasses import dataclass

import torch


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
