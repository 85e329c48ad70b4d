"""`torchvision:NAME` or `torchvision:NAME/WEIGHTS`: torchvision models, with their transforms.

The 224 px stimulus is resized to the weights' crop size without cropping, then normalized.
"""

from types import ModuleType

from eyechart.models.adapter import Untyped, need
from eyechart.models.adapters.outputs import unknown_of_many
from eyechart.models.adapters.zoo import finished, interpolation, zoo
from eyechart.models.model import Model
from eyechart.models.preprocessing import Preprocessing
from eyechart.models.request import Request


def load(name: str, request: Request) -> Model:
    """Return a torchvision classifier, by default with its newest weights."""
    models = need("torchvision.models", "torchvision")
    spec = f"torchvision:{name}"
    base, _, wanted = name.partition("/")
    weights = _weights(models, base, wanted)
    with zoo(spec, request):
        network = models.get_model(base, weights=weights)
        steps = steps_of(weights.transforms())
    labels = weights.meta["categories"]
    return finished(
        spec,
        network,
        request,
        steps,
        published_accuracy=_published_accuracy(weights),
        labels=labels,
    )


def steps_of(transforms: Untyped) -> Preprocessing:
    """Return the weights' transforms without the crop, since the stimulus is already cropped."""
    red, green, blue = transforms.mean
    spread_red, spread_green, spread_blue = transforms.std
    return Preprocessing(
        side=int(transforms.crop_size[0]),
        mean=(red, green, blue),
        std=(spread_red, spread_green, spread_blue),
        interpolation=interpolation(transforms.interpolation.value),
    )


def _weights(models: ModuleType, base: str, wanted: str) -> Untyped:
    known = models.list_models(module=models)
    if base not in known:
        raise unknown_of_many("torchvision model", base, known, "torchvision.models.list_models()")
    enum = models.get_model_weights(base)
    if not wanted:
        return enum.DEFAULT
    # Some weights are trained only as feature extractors, and their classifier is untrained.
    able = [name for name, one in enum.__members__.items() if one.meta.get("categories")]
    if wanted not in able:
        where = f"torchvision.models.get_model_weights('{base}')"
        raise unknown_of_many(f"weights of {base}", wanted, able, where)
    return enum[wanted]


def _published_accuracy(weights: Untyped) -> float | None:
    """Return the published top-1 accuracy of the weights on ImageNet's validation set, 0…1."""
    percent = weights.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    return None if percent is None else float(percent) / 100
