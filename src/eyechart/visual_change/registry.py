"""The rulers by name, and the settings of measuring; to add a ruler, add one line here."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from eyechart.core.arguments import short_repr
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.registry import Registry, one_of

if TYPE_CHECKING:
    # the command line lists the rulers without waiting for torch
    from eyechart.visual_change.ruler import Ruler

DEFAULT_RULER = "vif"
"""The ruler of the VCR study, by which human responses are placed on the Δv axis."""

RULERS: "Registry[Ruler]" = Registry("ruler")
for _name, _address in {
    "vif": "vif.rulers:VCR_RULER",
    "sheikh2006": "vif.rulers:SHEIKH2006_RULER",
    "vif-pixel": "vif.rulers:PIXEL_RULER",
    "vif-human": "registration.human_ruler:HUMAN_RULER",
    "ms-ssim": "ms_ssim:MS_SSIM_RULER",
    "lpips": "networks.network_rulers:LPIPS_RULER",
    "lpips-vgg": "networks.network_rulers:LPIPS_VGG_RULER",
    "st-lpips": "networks.network_rulers:ST_LPIPS_RULER",
    "st-lpips-vgg": "networks.network_rulers:ST_LPIPS_VGG_RULER",
    "dists": "networks.network_rulers:DISTS_RULER",
    "human": "registration.human_ruler:EXPECTED_LOSS_RULER",
}.items():
    RULERS.add_lazily(_name, f"eyechart.visual_change.{_address}")

MEASURE_GEOMETRY = ("vif-human", "st-lpips", "st-lpips-vgg", "dists", "human")
"""Rulers that tolerate or undo a movement of image content, so that they can measure geometric
corruptions. Declared by name, so that a message can list them without loading their networks.
"""


def measures_geometry(name: str) -> bool:
    """Return whether the ruler with this name can measure geometric corruptions."""
    return name in MEASURE_GEOMETRY


def geometry_rulers() -> list[str]:
    """Return the names of the rulers that can measure geometric corruptions."""
    return [name for name in RULERS if measures_geometry(name)]


def find_ruler(name: str) -> "Ruler":
    """Return the ruler with this name, or raise a UsageError with similar names."""
    if not isinstance(name, str):
        raise UsageError(f"ruler must be a name such as '{DEFAULT_RULER}', got {short_repr(name)}.")
    return RULERS[name]


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
