"""Models of a finished run that are known from its record and make no more predictions."""

import torch
from torch import Tensor

from eyechart.core.records import Record
from eyechart.models.model import Model
from eyechart.models.preprocessing import Preprocessing


class ModelRecord(Record):
    """Everything about a model that scoring needs."""

    name: str
    """Name of the model."""
    identity: str
    """SHA-256 of the weights; "" if there are none."""
    dtype: str
    """Precision, such as "torch.float32"."""
    classes: int | None
    """Number of classes."""
    class_names: tuple[str, ...] | None
    """Names of the classes; null if they are ImageNet's."""
    side: int | None
    """Height and width of its input in px; null if it takes images of any size."""
    trained_on: tuple[str, ...]
    """Corruptions that the model is known to be trained on."""

    @classmethod
    def of(cls, model: Model) -> "ModelRecord":
        """Return the record of a model that has made predictions."""
        return cls(
            name=model.name,
            identity=model.identity,
            dtype=str(model.dtype),
            classes=model.classes,
            class_names=model.class_names,
            side=model.side,
            trained_on=model.trained_on,
        )

    def model(self) -> Model:
        """Return a model with these properties, which cannot be called."""
        model = Model(
            self.name,
            _not_loaded,
            identity=self.identity,
            classes=self.classes,
            preprocessing=Preprocessing(side=self.side),
            dtype=getattr(torch, self.dtype.removeprefix("torch.")),
            class_names=self.class_names,
        )
        model.trained_on = self.trained_on
        return model


def _not_loaded(_images: Tensor) -> Tensor:
    raise AssertionError("a model that is known from a record makes no predictions")
