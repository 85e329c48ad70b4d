"""Settings for measuring the visual change of image files.

Nothing slow is imported here, because the command line is built from these settings.
"""

from dataclasses import dataclass
from typing import Annotated

from eyechart.core.options import Device, Option
from eyechart.core.registry import one_of
from eyechart.visual_change.registry import DEFAULT_RULER, RULERS

DTYPE = "float64"


@dataclass(frozen=True, kw_only=True)
class MeasureSettings:
    """The ruler, the precision and the device; see `delta_v`."""

    ruler: Annotated[
        str,
        Option(help=f"Ruler of visual change: {one_of(RULERS)}.", group="Curves and statistics"),
    ] = DEFAULT_RULER
    dtype: Annotated[
        str,
        Option(help="Precision of VIF: float64, or float32 (faster on a GPU).", group="Compute"),
    ] = DTYPE
    device: Device = "cpu"
