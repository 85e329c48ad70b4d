"""Write the locked environment: exact versions of all packages, hashes, and licenses.

    .venv/bin/python tools/lock.py             # keep versions in constraints.txt, add new packages
    .venv/bin/python tools/lock.py --upgrade   # use the newest versions
    .venv/bin/python tools/lock.py --licenses  # list licenses, after make install

Run it with the Python version to lock for. `constraints.txt` has the versions for all machines,
those of the extras cloud, energy and ray included, which development does not install;
`requirements.lock` has hashes of the files that pip may install on this machine,
`requirements-demo.lock` has those that `make demo` needs, and
`docs/reference/licenses.md` has the licenses.
torch is only in `constraints.txt`: its CPU and GPU builds share a version but have different
hashes, and each machine needs a different build.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXPERIMENT = "packages/experiment"
CONSTRAINTS, LICENSES = "constraints.txt", "docs/reference/licenses.md"
LOCK, DEMO_LOCK = "requirements.lock", "requirements-demo.lock"
OWN = ("eyechart", "eyechart-experiment")
BUILDS = ("torch", "triton", "nvidia-", "cuda-")
"""Packages whose files depend on the machine's accelerator, not only on its Python."""

BUILD = ("hatchling", "editables")
"""Packages that build an editable install; hatchling does not declare the second one."""


EXTRAS = ("cloud", "coverage", "energy", "ray")
"""Extras whose versions are in `constraints.txt`, but which development does not install."""

PEERS = ("ray[default]",)
"""What users of these extras may install beside them: jobs of Ray need more than Ray."""

UNCONSTRAINED = ("setuptools",)
"""Packages locked for development only, because extras for other model zoos need other versions."""


@dataclass(frozen=True)
class Package:
    """A package of the environment with its exact version."""

    name: str
    version: str


def main(arguments: list[str]) -> None:
    """Resolve and write the development environment, or list the licenses of installed packages."""
    if arguments not in ([], ["--upgrade"], ["--licenses"]):
        sys.exit(f"Unknown arguments: {' '.join(arguments)}; pass --upgrade, --licenses or none.")
    if arguments == ["--licenses"]:
        names = [pin.name for pin in read_pins(ROOT / LOCK)] + ["torch"]
        (ROOT / LICENSES).write_text(licenses_text(sorted(names)), encoding="utf-8")
        print(f"{len(names)} packages in {LICENSES}.")
        return
    # Together, because one version of each package has to suit all of them.
    packages = resolve(",".join(("dev", *EXTRAS)), upgrade=bool(arguments), peers=PEERS)
    (ROOT / CONSTRAINTS).write_text(constraints_text(packages), encoding="utf-8")
    # With the versions that were just written.
    for_dev = resolve("dev", upgrade=False)
    hashed = [each for each in for_dev if not each.name.startswith(BUILDS)]
    (ROOT / LOCK).write_text(lock_text(hashed), encoding="utf-8")
    needed = {each.name for each in resolve("demo", upgrade=False)}
    for_demo = [each for each in hashed if each.name in needed]
    (ROOT / DEMO_LOCK).write_text(lock_text(for_demo), encoding="utf-8")
    print(f"{len(packages)} packages in {CONSTRAINTS}, {len(hashed)} of them in {LOCK}.")


def read_pins(path: Path) -> list[Package]:
    """Return the packages that a requirements file pins."""
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [Package(normal(name), version) for name, version in found]


def normal(name: str) -> str:
    """Return the name of a package as package indexes spell it: lower-case, with hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(extras: str, upgrade: bool, peers: Sequence[str] = ()) -> list[Package]:
    """Return all packages that extras of eyechart and their peers need, as resolved by pip."""
    kept = [] if upgrade else ["-c", str(ROOT / CONSTRAINTS)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--report", str(report), *kept]
        experiment = f"{ROOT / EXPERIMENT}[dev]" if "dev" in extras else str(ROOT / EXPERIMENT)
        own = ["-e", f"{ROOT}[{extras}]", "-e", experiment]
        subprocess.run([*command, *BUILD, *peers, *own], check=True)
        chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = [_package(each["metadata"]) for each in chosen]
    return sorted((each for each in found if each.name not in OWN), key=lambda each: each.name)


def _package(metadata: Mapping[str, Any]) -> Package:
    # A build for a specific accelerator names it after a plus sign.
    return Package(normal(metadata["name"]), metadata["version"].partition("+")[0])


def constraints_text(packages: list[Package]) -> str:
    """Return exact versions for all machines; pins that only other extras need are kept."""
    pins = {pin.name: pin.version for pin in read_pins(ROOT / CONSTRAINTS)}
    pins |= {each.name: each.version for each in packages if each.name not in UNCONSTRAINED}
    head = f"# Exact versions of all packages, for any machine; written by tools/lock.py, as {LOCK}"
    return "\n".join([head, *(f"{name}=={pins[name]}" for name in sorted(pins)), ""])


def lock_text(packages: list[Package]) -> str:
    """Return exact versions with the hashes of all files that pip may install here."""
    lines = [f"# For CPython {sys.version_info.major}.{sys.version_info.minor} on {sys.platform};"]
    lines += ["# written by tools/lock.py, installed by install.sh"]
    finder = _finder()
    for each in packages:
        hashes = sorted(set(_hashes(finder, each)))
        if not hashes:
            sys.exit(f"No file of {each.name} {each.version} has a hash.")
        lines.append(f"{each.name}=={each.version} \\")
        lines += [f"    --hash=sha256:{value} \\" for value in hashes[:-1]]
        lines.append(f"    --hash=sha256:{hashes[-1]}")
    return "\n".join([*lines, ""])


def _hashes(finder: Any, package: Package) -> Iterator[str]:
    """Yield the hashes of all files of a version that pip could install on this machine."""
    for candidate in finder.find_all_candidates(package.name):
        if str(candidate.version) == package.version and candidate.link.hash_name == "sha256":
            yield candidate.link.hash


def _finder() -> Any:
    """Return pip's package finder, configured with this machine's package indexes."""
    from pip._internal.commands.install import InstallCommand

    command = InstallCommand("install", "")
    options, _ = command.parse_args(["--quiet"])
    session = command._build_session(options)
    return command._build_package_finder(options, session)


def licenses_text(names: list[str]) -> str:
    """Return a page that lists the license of each installed package, as stated in its metadata."""
    lines = [
        "# Licenses of dependencies",
        "",
        "Licenses of the packages in the development environment, as stated in their metadata."
        " eyechart itself is under Apache-2.0 and contains none of them; the pages of the"
        " experiment contain the packages listed in `packages/experiment/frontend/NOTICES.txt`."
        " Written by `tools/lock.py`.",
        "",
        "| package | version | license |",
        "|---|---|---|",
    ]
    for name in names:
        metadata = distribution(name).metadata
        version = metadata["Version"].partition("+")[0]
        lines.append(f"| {name} | {version} | {license_of(metadata)} |")
    return "\n".join([*lines, ""])


def license_of(metadata: Any) -> str:
    """Return the license in a few words, from the expression, the classifiers or the first line."""
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    given = [each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
    names = [each.rpartition(" :: ")[2] for each in given if each.count(" :: ") > 1]
    if names:
        return ", ".join(names)
    lines = str(metadata["License"] or "").strip().splitlines()
    if not lines or lines[0] == "UNKNOWN":
        return "not stated in its metadata"
    return " ".join(lines[0].split())[:60]


if __name__ == "__main__":
    main(sys.argv[1:])
