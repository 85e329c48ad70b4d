"""The recruitment platforms; each module except `recruiter` declares one as `RECRUITER`.

`api` has what their programming interfaces share.
"""

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


def recruiter_settings() -> dict[str, str]:
    """Return the help text of every platform-specific study setting, by name."""
    return {
        setting.name: setting.help
        for recruiter in RECRUITERS.values()
        for setting in recruiter.settings
    }


def platform_fees() -> dict[str, PlatformFee]:
    """Return the fees of all platforms, by name."""
    return {fee.name: fee for recruiter in RECRUITERS.values() for fee in recruiter.fees}


def platform_warnings(settings: Mapping[str, str]) -> list[str]:
    """Return what is missing in a study's platform settings, one sentence each."""
    return [text for recruiter in RECRUITERS.values() for text in recruiter.warnings(settings)]
