"""What several tests of images share."""

import pytest

from small_models import save_images


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Eight small images in class folders."""
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=2)
