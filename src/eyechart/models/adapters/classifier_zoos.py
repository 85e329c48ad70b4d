"""`timm:`, `torchvision:` and `robustbench:`: zoos of classifiers that are loaded by name.

The 224 px stimulus is resized to the input size of the zoo's own preprocessing without cropping,
then normalized; RobustBench's models include their normalization.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch

from eyechart.core.errors import UsageError
from eyechart.models.adapter import Request, Untyped, need
from eyechart.models.adapters.zoo import (
    build_model,
    interpolation,
    normalizing,
    unknown_of_many,
    zoo,
)
from eyechart.models.model import Model, Preprocessing

THREATS = ("Linf", "corruptions", "L2")
"""RobustBench's threat models; a name listed under several of them denotes the same model."""


def load_timm(name: str, request: Request) -> Model:
    """Return a timm model: `resnet50`, `resnet50.a1_in1k`, `hf-hub:REPO` or `local-dir:FOLDER`."""
    timm = need("timm", "timm")
    spec = f"timm:{name}"
    # Names with a prefix (hf-hub:, local-dir:) are not in timm's lists.
    if ":" not in name:
        base, _, tag = name.partition(".")
        if not timm.is_model(base):
            raise unknown_of_many("timm model", name, timm.list_models(), "timm.list_models()")
        tagged = timm.list_pretrained(f"{base}.*")
        if tag and tagged and name not in tagged:
            raise unknown_of_many("timm model", name, tagged, f"timm.list_pretrained('{base}.*')")
    with zoo(spec, request):
        network = timm.create_model(name, pretrained=True).float()
        config = timm.data.resolve_model_data_config(network)
    outputs = int(getattr(network, "num_classes", 0))
    if outputs < 2:
        raise UsageError(
            f"{spec} must be a classifier, but it only returns features: use a different tag."
        )
    channels, height, width = config["input_size"]
    if channels != 3:
        raise UsageError(f"{spec} must take images with 3 channels, but takes {channels}.")
    # The configured crop is not used, since the stimulus is already cropped.
    steps = normalizing(
        spec, (height, width), config["mean"], config["std"], config["interpolation"]
    )
    return build_model(spec, network, request, steps, labels=_timm_labels(timm, network, outputs))


def _timm_labels(timm: ModuleType, network: Untyped, outputs: int) -> list[str]:
    """Return the names of the outputs, from the weights or from ImageNet's larger class sets."""
    config = getattr(network, "pretrained_cfg", None) or {}
    names = config.get("label_names") or ()
    subset = timm.data.infer_imagenet_subset(network)
    # 1,000 outputs are in ImageNet's order and need no names.
    if len(names) != outputs and subset and outputs != 1000:
        names = timm.data.ImageNetInfo(subset).label_names()
    if len(names) != outputs:
        names = [f"LABEL_{number}" for number in range(outputs)]
    return [str(label) for label in names]


def load_torchvision(name: str, request: Request) -> Model:
    """Return a torchvision classifier, given NAME[/WEIGHTS]; by default its newest weights."""
    models = need("torchvision.models", "torchvision")
    spec = f"torchvision:{name}"
    base, _, wanted = name.partition("/")
    names = models.list_models(module=models)
    if base not in names:
        raise unknown_of_many("torchvision model", base, names, "torchvision.models.list_models()")
    enum = models.get_model_weights(base)
    # Some weights are trained only as feature extractors, and their classifier is untrained.
    usable = [key for key, one in enum.__members__.items() if one.meta.get("categories")]
    if wanted and wanted not in usable:
        where = f"torchvision.models.get_model_weights('{base}')"
        raise unknown_of_many(f"weights of {base}", wanted, usable, where)
    weights = enum[wanted] if wanted else enum.DEFAULT
    with zoo(spec, request):
        network = models.get_model(base, weights=weights)
        steps = torchvision_steps(spec, weights.transforms())
    percent = weights.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    published = None if percent is None else float(percent) / 100
    return build_model(
        spec,
        network,
        request,
        steps,
        published_accuracy=published,
        labels=weights.meta["categories"],
    )


def torchvision_steps(spec: str, transforms: Untyped) -> Preprocessing:
    """Return the weights' transforms without the crop, since the stimulus is already cropped."""
    size, method = transforms.crop_size * 2, transforms.interpolation.value
    return normalizing(spec, size[:2], transforms.mean, transforms.std, method)


def load_robustbench(name: str, request: Request) -> Model:
    """Return RobustBench's model for ImageNet with this name, for any threat model."""
    utils = robustbench_package()
    spec = f"robustbench:{name}"
    listed = robustbench_models()
    threat = next((threat for threat in THREATS if name in listed[threat]), None)
    if threat is None:
        known = sorted({known for names in listed.values() for known in names})
        raise unknown_of_many("RobustBench model", name, known, "https://robustbench.github.io")
    # ./models if it has the checkpoint, else a folder in torch hub's.
    is_here = Path("models", "imagenet", threat, f"{name}.pt").is_file()
    folder = "models" if is_here else str(Path(torch.hub.get_dir(), "robustbench"))
    with zoo(spec, request):
        network = utils.load_model(
            name, model_dir=folder, dataset="imagenet", threat_model=threat
        ).float()
        steps = robustbench_steps(name, threat)
    return build_model(spec, network, request, steps)


def robustbench_package() -> ModuleType:
    """Return the RobustBench module that loads models; raise a UsageError if it is missing."""
    # RobustBench from PyPI imports AutoAttack under its GitHub name, but depends on it under its
    # PyPI name. No attack is run here.
    if find_spec("autoattack") is None and find_spec("pyautoattack") is not None:
        for part in ("", ".state"):
            sys.modules[f"autoattack{part}"] = import_module(f"pyautoattack{part}")
    return need("robustbench.utils", "robustbench")


def robustbench_models() -> dict[str, list[str]]:
    """Return the names of the models for each threat model."""
    enums = import_module("robustbench.model_zoo.enums")
    dicts = import_module("robustbench.model_zoo.models").model_dicts
    models = dicts[enums.BenchmarkDataset.imagenet]
    return {threat: list(models.get(enums.ThreatModel(threat), {})) for threat in THREATS}


def robustbench_steps(name: str, threat: str) -> Preprocessing:
    """Return the input size and interpolation of RobustBench's preprocessing, without its crop."""
    enums = import_module("robustbench.model_zoo.enums")
    transforms = import_module("robustbench.data").get_preprocessing(
        enums.BenchmarkDataset.imagenet, enums.ThreatModel(threat), name, None
    )
    side, how = None, "bilinear"
    for step in transforms.transforms:
        # The last size counts: the crop follows the resize, and is what the model takes.
        size = getattr(step, "size", None)
        if size is not None:
            side = size if isinstance(size, int) else size[0]
        if hasattr(step, "interpolation"):
            how = interpolation(step.interpolation.value)
    return Preprocessing(side=side, interpolation=how)
