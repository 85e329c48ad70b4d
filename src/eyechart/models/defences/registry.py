"""The defences by the names that users type. To add one, add its module and one line here.

The command line lists the defences, so nothing slow (such as torch) is imported here.
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
    """Split a defended model's name into the defences, such as "clahe+", and the model's name.

    Example:
        >>> split_name("clahe:clip=3+timm:resnet50")
        ('clahe:clip=3+', 'timm:resnet50')
    """
    # A model's own name may contain "+": only known defences are split off.
    front, rest = "", name
    while rest.partition("+")[1] and rest.partition("+")[0].partition(":")[0] in DEFENCES:
        defence, plus, rest = rest.partition("+")
        front += defence + plus
    return front, rest
