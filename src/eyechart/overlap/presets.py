"""Settings of published overlap studies, as options of `eyechart overlap run`."""

from collections.abc import Mapping
from types import MappingProxyType

Option = str | int | float | bool | list[str]

IMAGENET_CLASSES = 1000
"""Of which the paper takes every tenth, by WordNet id, which is called ImageNet-100."""

PRESETS: Mapping[str, Mapping[str, Option]] = MappingProxyType(
    {
        # Increasing the coverage and balance of robustness benchmarks by using non-overlapping
        # corruptions, section 4: ImageNet-100, ResNet-18, and both benchmarks of section 5
        "paper": MappingProxyType(
            {
                "suite": ["noc-candidates", "imagenet-c"],
                "together": ["imagenet-c", "imagenet-noc"],
                "arch": "imagenet_resnet18",
                "every": 10,
                "stimulus": "224x224",
                "epochs": 40,
                "batch": 256,
                "rate": 0.1,
                "schedule": "step",
                "warmup": 0.0,
                "weight_decay": 1e-4,
                "nesterov": False,
                "share": 0.5,
                "crop": 0,
                "precision": "float32",
            }
        )
    }
)


def preset_line(name: str, values: Mapping[str, Option]) -> str:
    """Return the options that a preset stands for, as they would be typed."""
    words = []
    for option, value in values.items():
        flag = f"--{option.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] if value else []
        else:
            items = value if isinstance(value, list) else [value]
            words += [
                f"{flag} {item:g}" if isinstance(item, float) else f"{flag} {item}"
                for item in items
            ]
    return f"Preset {name}: {' '.join(words)}"
