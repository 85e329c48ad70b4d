"""Two toy models of exact arithmetic, for runs whose numbers must be equal on every machine.

An image's mean levels in 4 × 4 blocks are compared with those of the 20 demo images, in integers;
the 1,000 outputs are probabilities that binary fractions represent exactly. Both models do better
than chance on clean images.
"""

import torch
from torch import Tensor

DEMO_BLOCKS = (
    (243, "9b884989368654469a885679457654566768356734643334"),
    (559, "89aa76887689557756666467446854775567646644675477"),
    (438, "57556756abbbcbc836555556abbbbbb836774267abbbbab7"),
    (990, "34659c77488a54883465ac77588a65982343665523364335"),
    (949, "a8bc978a889cabce968b5566557ba9ce757a4456446a87ad"),
    (853, "899968996777666689896899788878878989588944563343"),
    (609, "dcb9ba87a6585666cba8a97796475555ba97886675464554"),
    (609, "444444746434455544445575643454453333568465564445"),
    (915, "75c4a9956444344475c5aa955444333375c5baa554332232"),
    (455, "bcccba9b99989669ca9c865763269449ca9c854762258448"),
    (541, "ca9b766686659666b98a455443118445a878445443227444"),
    (630, "fede46656667ddddfede46655667ddddfede46655667cccc"),
    (741, "876587668758674676547655665665466544875876465535"),
    (471, "98878568556765579887867855776557a898967956786557"),
    (129, "88878787677778889998979878887888aaaaa9a989998999"),
    (99, "9877688a4767786799886989486899785555456624444434"),
    (251, "54337625a458765655337525a458754555336525a3586435"),
    (22, "433443434565775543343232345455443433222233434423"),
    (317, "26561b67176722553789398b368a44880201062303230011"),
    (305, "bcbba74a72587667abab975a624865679aab876a63475557"),
)
"""Class of each demo image, and its mean levels (red, green, blue; 16 steps) in 4 × 4 blocks."""

CLASSES = 1000


def fine(images: Tensor) -> Tensor:
    """Compare all 16 blocks."""
    return _probabilities(_block_levels(images), _references())


def coarse(images: Tensor) -> Tensor:
    """Compare the mean color only, which confuses some of the clean images."""
    levels, references = (
        blocks.unflatten(1, (3, 16)).sum(dim=2) // 16
        for blocks in (_block_levels(images), _references())
    )
    return _probabilities(levels, references)


def _block_levels(images: Tensor) -> Tensor:
    """Return the mean levels of blocks, rounded down: int64 (B, 48)."""
    levels = (images.double() * 255).round().long()
    height, width = (side // 4 for side in levels.shape[2:])
    blocks = (
        levels[..., : 4 * height, : 4 * width].unflatten(3, (4, width)).unflatten(2, (4, height))
    )
    return blocks.sum(dim=(3, 5)).flatten(1) // (height * width)


def _references() -> Tensor:
    """Return the mean levels of the demo images: int64 (20, 48)."""
    return torch.tensor([[17 * int(digit, 16) for digit in blocks] for _, blocks in DEMO_BLOCKS])


def _probabilities(levels: Tensor, references: Tensor) -> Tensor:
    """Return class probabilities by the distance of an image to the nearest demo image of a class.

    The nearest class has 32/64 to 63/64, by how far ahead it is; each of the next has half of what
    is left. Other classes have 0.
    """
    labels = sorted({label for label, _ in DEMO_BLOCKS})
    distances = (levels[:, None] - references).abs().sum(dim=2)
    of_class = torch.stack(
        [distances[:, [own == label for own, _ in DEMO_BLOCKS]].amin(dim=1) for label in labels],
        dim=1,
    )
    # the position decides between equal distances
    ranked, order = (of_class * len(labels) + torch.arange(len(labels))).sort(dim=1)
    ahead = (ranked[:, 1] - ranked[:, 0]) // (len(labels) * levels.shape[1])
    first = (32 + ahead.clamp(max=31)).double()[:, None] / 64
    halves = 0.5 ** torch.arange(1, len(labels), dtype=torch.float64)
    probabilities = torch.zeros(len(levels), CLASSES, dtype=torch.float64)
    ordered = torch.tensor(labels)[order]
    return probabilities.scatter(
        1, ordered, torch.cat([first, (1 - first) * halves], dim=1)
    ).float()
