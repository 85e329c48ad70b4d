"""`robustbench:NAME`: RobustBench's zoo for ImageNet, whose models include normalization.

The 224 px stimulus is resized to the output size of the package's preprocessing.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch

from eyechart.models.adapter import need
from eyechart.models.adapters.outputs import unknown_of_many
from eyechart.models.adapters.zoo import finished, interpolation, zoo
from eyechart.models.model import Model
from eyechart.models.preprocessing import Preprocessing
from eyechart.models.request import Request

THREATS = ("Linf", "corruptions", "L2")
"""RobustBench's threat models; a name listed under several of them denotes the same model."""


def load(name: str, request: Request) -> Model:
    """Return the model with this name, for any threat model."""
    utils = package()
    spec = f"robustbench:{name}"
    listed = known_models()
    threat = next((threat for threat in THREATS if name in listed[threat]), None)
    if threat is None:
        known = sorted({known for names in listed.values() for known in names})
        raise unknown_of_many("RobustBench model", name, known, "https://robustbench.github.io")
    with zoo(spec, request):
        network = utils.load_model(
            name, model_dir=_folder(name, threat), dataset="imagenet", threat_model=threat
        ).float()
        steps = steps_for(name, threat)
    return finished(spec, network, request, steps)


def package() -> ModuleType:
    """Return the RobustBench module that loads models; raise a UsageError if it is missing."""
    _stand_in_for_autoattack()
    return need("robustbench.utils", "robustbench")


def known_models() -> dict[str, list[str]]:
    """Return the names of the models for each threat model."""
    enums = import_module("robustbench.model_zoo.enums")
    dicts = import_module("robustbench.model_zoo.models").model_dicts
    models = dicts[enums.BenchmarkDataset.imagenet]
    return {threat: list(models.get(enums.ThreatModel(threat), {})) for threat in THREATS}


def steps_for(name: str, threat: str) -> Preprocessing:
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


def _stand_in_for_autoattack() -> None:
    # RobustBench from PyPI imports AutoAttack under its GitHub name, but depends on it under its
    # PyPI name. No attack is run here.
    if find_spec("autoattack") is None and find_spec("pyautoattack") is not None:
        for part in ("", ".state"):
            sys.modules[f"autoattack{part}"] = import_module(f"pyautoattack{part}")


def _folder(name: str, threat: str) -> str:
    """Return the checkpoint folder: ./models if it has the file, else one in torch hub's folder."""
    if Path("models", "imagenet", threat, f"{name}.pt").is_file():
        return "models"
    return str(Path(torch.hub.get_dir(), "robustbench"))
