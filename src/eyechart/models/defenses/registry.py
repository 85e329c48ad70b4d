"""Registry of defenses by command-line name; to add one, write a module and register it here.

The command line lists the defenses, so nothing slow (such as torch) is imported here.
"""

from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    from eyechart.models.defenses.defended import DefenseType

CLAHE, NON_LOCAL_MEANS, TEN_CROP, CENTER_CROP = "clahe", "nlm", "ten-crop", "center-crop"

DEFENSES: "Registry[DefenseType]" = Registry("defense")
DEFENSES.add_lazily(CLAHE, "eyechart.models.defenses.image_operations:CLAHE_DEFENSE")
DEFENSES.add_lazily(
    NON_LOCAL_MEANS, "eyechart.models.defenses.image_operations:NON_LOCAL_MEANS_DEFENSE"
)
DEFENSES.add_lazily(TEN_CROP, "eyechart.models.defenses.defended:TEN_CROP_DEFENSE")
DEFENSES.add_lazily(CENTER_CROP, "eyechart.models.defenses.defended:CENTER_CROP_DEFENSE")


def split_name(name: str) -> tuple[str, str]:
    """Split a defended model's name into the defenses, such as "clahe+", and the model's name.

    Example:
        >>> split_name("clahe:clip=3+timm:resnet50")
        ('clahe:clip=3+', 'timm:resnet50')
    """
    # A model's own name may contain "+": only known defenses are split off.
    front, rest = "", name
    while rest.partition("+")[1] and rest.partition("+")[0].partition(":")[0] in DEFENSES:
        defense, plus, rest = rest.partition("+")
        front += defense + plus
    return front, rest
