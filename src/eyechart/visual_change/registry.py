"""The rulers by name. A new ruler is its module and one line here."""

from eyechart.core.arguments import brief
from eyechart.core.errors import UsageError
from eyechart.core.registry import Registry
from eyechart.visual_change.ruler import Ruler
from eyechart.visual_change.vif.rulers import VIF_RULERS

DEFAULT_RULER = "vcr"
"""The ruler of the VCR study, by which human responses are placed."""

RULERS: Registry[Ruler] = Registry("definition")
for vif_ruler in VIF_RULERS.values():
    RULERS.add(vif_ruler.name, vif_ruler)


def find_ruler(name: str) -> Ruler:
    """Return the ruler of that name, or raise a UsageError with similar names."""
    if not isinstance(name, str):
        raise UsageError(f"definition must be a name such as '{DEFAULT_RULER}', got {brief(name)}.")
    return RULERS[name]
