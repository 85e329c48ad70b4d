"""The defences by the names that users type. A new one is its module and one line here.

Nothing slow is imported here: the command line lists the defences, and does not wait for torch.
"""

from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    from eyechart.models.defences.defence import Kind

CLAHE, NON_LOCAL_MEANS, TEN_CROP, CENTRE_CROP = "clahe", "nlm", "ten-crop", "centre-crop"

DEFENCES: "Registry[Kind]" = Registry("defence")
DEFENCES.add_lazily(CLAHE, "eyechart.models.defences.clahe:DEFENCE")
DEFENCES.add_lazily(NON_LOCAL_MEANS, "eyechart.models.defences.non_local_means:DEFENCE")
DEFENCES.add_lazily(TEN_CROP, "eyechart.models.defences.crops:TEN_CROP_DEFENCE")
DEFENCES.add_lazily(CENTRE_CROP, "eyechart.models.defences.crops:CENTRE_CROP_DEFENCE")


def split_name(name: str) -> tuple[str, str]:
    """Return a defended model's name as "clahe+" and the name of the model itself."""
    front, rest = "", name
    while rest.partition("+")[1] and rest.partition("+")[0].partition(":")[0] in DEFENCES:
        defence, plus, rest = rest.partition("+")
        front += defence + plus
    return front, rest
