"""`timm:NAME`: any timm model, with the data configuration of its weights.

The 224 px stimulus is resized to the model's input size without cropping, then normalized.
"""

from types import ModuleType

from eyechart.core.errors import UsageError
from eyechart.models.adapter import Untyped, need
from eyechart.models.adapters.outputs import unknown_of_many
from eyechart.models.adapters.zoo import finished, interpolation, square, zoo
from eyechart.models.model import Model
from eyechart.models.preprocessing import Preprocessing
from eyechart.models.request import Request


def load(name: str, request: Request) -> Model:
    """Return a timm model: `resnet50`, `resnet50.a1_in1k`, `hf-hub:REPO` or `local-dir:FOLDER`."""
    timm = need("timm", "timm")
    spec = f"timm:{name}"
    # Names with a prefix (hf-hub:, local-dir:) are not in timm's lists.
    if ":" not in name:
        _check(timm, name)
    with zoo(spec, request):
        network = timm.create_model(name, pretrained=True).float()
        config = timm.data.resolve_model_data_config(network)
    outputs = int(getattr(network, "num_classes", 0))
    if outputs < 2:
        raise UsageError(
            f"{spec} must be a classifier, but it only returns features: use a different tag."
        )
    labels = _labels(timm, network, outputs)
    return finished(spec, network, request, steps(spec, config), labels=labels)


def steps(spec: str, config: dict[str, Untyped]) -> Preprocessing:
    """Return timm's data configuration without its crop, since the stimulus is already cropped."""
    channels, height, width = config["input_size"]
    if channels != 3:
        raise UsageError(f"{spec} must take images with 3 channels, but takes {channels}.")
    red, green, blue = config["mean"]
    spread_red, spread_green, spread_blue = config["std"]
    return Preprocessing(
        side=square(spec, height, width),
        mean=(red, green, blue),
        std=(spread_red, spread_green, spread_blue),
        interpolation=interpolation(config["interpolation"]),
    )


def _check(timm: ModuleType, name: str) -> None:
    base, _, tag = name.partition(".")
    if not timm.is_model(base):
        raise unknown_of_many("timm model", name, timm.list_models(), "timm.list_models()")
    known = timm.list_pretrained(f"{base}.*")
    if tag and known and name not in known:
        raise unknown_of_many("timm model", name, known, f"timm.list_pretrained('{base}.*')")


def _labels(timm: ModuleType, network: Untyped, outputs: int) -> list[str]:
    """Return the names of the outputs, from the weights or from ImageNet's larger class sets."""
    config = getattr(network, "pretrained_cfg", None) or {}
    names = config.get("label_names")
    if names and len(names) == outputs:
        return [str(label) for label in names]
    subset = timm.data.infer_imagenet_subset(network)
    # 1,000 outputs are in ImageNet's order and need no names.
    if subset and outputs != 1000:
        known = [str(label) for label in timm.data.ImageNetInfo(subset).label_names()]
        if len(known) == outputs:
            return known
    return [f"LABEL_{number}" for number in range(outputs)]
