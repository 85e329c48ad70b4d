"""Compare the run time that a plan predicts with the time that the run then takes."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eyechart.pipeline.run_plan import RunPlan

CASES = {
    "cpu": {
        "one model, three corruptions": [
            *("efficientnet_lite0", "--max-images", "60", "--corruption", "gaussian_noise"),
            *("--corruption", "frost", "--corruption", "motion_blur"),
        ],
        "one model, a minute and a half at most": ["efficientnet_lite0", "--minutes", "1.5"],
        "two models": [
            *("efficientnet_lite0", "efficientnet_lite2", "--max-images", "40", "--n", "60"),
        ],
        "two blurs, without humans": [
            *("efficientnet_lite0", "--max-images", "100", "--n", "400", "--humans", "none"),
            *("--corruption", "glass_blur", "--corruption", "defocus_blur"),
        ],
        "ImageNet-C": ["efficientnet_lite0", "--max-images", "16", "--suite", "imagenet-c"],
    },
    "cuda": {
        "one model": ["efficientnet_lite0"],
        "one model, half a minute at most": ["efficientnet_lite0", "--minutes", "0.5"],
        "two models": [
            *("efficientnet_lite0", "efficientnet_lite2", "--max-images", "300", "--n", "1000"),
        ],
        "two blurs, without humans": [
            *("efficientnet_lite0", "--n", "4000", "--humans", "none"),
            *("--corruption", "glass_blur", "--corruption", "defocus_blur"),
        ],
        "ImageNet-C": ["efficientnet_lite2", "--max-images", "400", "--suite", "imagenet-c"],
    },
}
"""Options of `eyechart evaluate`, by device and name of the case."""


@dataclass(frozen=True)
class PlanTime:
    """A case with its number of samples per corruption, and planned and measured seconds."""

    case: str
    n: int
    planned: float
    measured: float

    @property
    def ratio(self) -> float:
        """Measured relative to planned time."""
        return self.measured / self.planned


def measure_plans(images: Path, device: str) -> Iterator[PlanTime]:
    """Run every case as a user would, in a process of its own, and yield its times."""
    for case, options in CASES[device].items():
        with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
            out = Path(folder) / "run"
            command = [sys.executable, "-m", "eyechart", "evaluate", *options]
            command += ["--images", str(images), "--device", device, "--out", str(out)]
            subprocess.run(command, check=True, capture_output=True)
            plan = RunPlan.model_validate(json.loads((out / "plan.json").read_text()))
            # The folder is opened right after the plan, and the results are written last.
            start, end = ((out / name).stat().st_mtime for name in ("run.json", "results.json"))
            yield PlanTime(case, plan.n, plan.seconds, end - start)
