"""The recruitment platforms; each module except `recruiter` declares one as `RECRUITER`."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from eyechart.core.registry import Registry
from eyechart_experiment.recruiters.recruiter import PlatformFee, Recruiter

RECRUITERS: Registry[Recruiter] = Registry("recruiter")
DEFAULT_FEE = "prolific"
"""Name of the fee with which costs are estimated unless another one is chosen."""

# Ordered by file name, so that adding a file is enough to add a platform.
for _module in iter_modules(__path__, f"{__name__}."):
    if not _module.ispkg and not _module.name.endswith(".recruiter"):
        _recruiter: Recruiter = import_module(_module.name).RECRUITER
        RECRUITERS.add(_recruiter.name, _recruiter)


RECRUITER_SETTINGS: Mapping[str, str] = {
    name: text for recruiter in RECRUITERS.values() for name, text in recruiter.settings.items()
}
"""Help text of every platform-specific study setting, by name."""

PLATFORM_FEES: Mapping[str, PlatformFee] = {
    fee.name: fee for recruiter in RECRUITERS.values() for fee in recruiter.fees
}
"""Fees of all platforms, by name."""


def platform_warnings(settings: Mapping[str, str]) -> list[str]:
    """Return what is missing in a study's platform settings, one sentence each."""
    return [text for recruiter in RECRUITERS.values() for text in recruiter.warnings(settings)]


def platform_title(platform: str) -> str:
    """Return the name of a recruiting site for messages; robots come from a simulation."""
    return RECRUITERS[platform].title if platform in RECRUITERS else "a simulation"
