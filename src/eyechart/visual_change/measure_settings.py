"""How visual change is measured of picture files, declared once.

Nothing slow is imported here: the command line is made from these.
"""

from dataclasses import dataclass
from typing import Annotated

from eyechart.core.options import Device, Option

DEFINITION, DTYPE = "vcr", "float64"


@dataclass(frozen=True, kw_only=True)
class MeasureSettings:
    """By which definition, how precisely and where; see `vif`."""

    definition: Annotated[
        str, Option(help="vcr, sheikh2006 or pixel.", group="Curves and statistics")
    ] = DEFINITION
    dtype: Annotated[
        str, Option(help="float64, or float32, which is faster on a GPU.", group="Compute")
    ] = DTYPE
    device: Device = "cpu"
