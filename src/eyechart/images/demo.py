"""The 20 labeled demo images that are used when no image source is given."""

import re
from importlib.util import find_spec
from pathlib import Path

from eyechart.core.errors import UsageError, install_hint
from eyechart.images.image_list import ListedImage

NAME = re.compile(r"imagenet_\d+_(\d+)\.jpg")
# Do not reword: stored in results, and compared when their images are shown again.
SOURCE = "20 demo images"


def demo_images() -> list[ListedImage]:
    """Return the ImageNet images that ship with foolbox, labeled with ImageNet class indices.

    Only the package's files are read; foolbox itself is not imported.
    """
    spec = find_spec("foolbox")
    if spec is None or spec.origin is None:
        raise UsageError(
            f"The demo images are not installed: {install_hint('demo')}, or give --images FOLDER."
        )
    folder = Path(spec.origin).parent / "data"
    matches = [(path, NAME.fullmatch(path.name)) for path in sorted(folder.glob("imagenet_*.jpg"))]
    return [ListedImage(path, path.name, match[1]) for path, match in matches if match]
