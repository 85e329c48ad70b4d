"""How visual change is measured of picture files, declared once.

Nothing slow is imported here: the command line is made from these.
"""

from dataclasses import dataclass
from typing import Annotated

from eyechart.core.options import Device, Option
from eyechart.core.registry import one_of
from eyechart.visual_change.registry import DEFAULT_RULER, RULERS

DTYPE = "float64"


@dataclass(frozen=True, kw_only=True)
class MeasureSettings:
    """By which definition, how precisely and where; see `vif`."""

    definition: Annotated[str, Option(help=f"{one_of(RULERS)}.", group="Curves and statistics")] = (
        DEFAULT_RULER
    )
    dtype: Annotated[
        str, Option(help="float64, or float32, which is faster on a GPU.", group="Compute")
    ] = DTYPE
    device: Device = "cpu"
