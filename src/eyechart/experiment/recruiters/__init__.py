"""The recruitment platforms; each module except `recruiter` declares one as `RECRUITER`."""

from importlib import import_module
from pkgutil import iter_modules

from eyechart.core.registry import Registry
from eyechart.experiment.recruiters.recruiter import Recruiter

RECRUITERS: Registry[Recruiter] = Registry("recruiter")

# Ordered by file name, so that adding a file is enough to add a platform.
for _module in iter_modules(__path__, f"{__name__}."):
    if not _module.name.endswith(".recruiter"):
        _recruiter: Recruiter = import_module(_module.name).RECRUITER
        RECRUITERS.add(_recruiter.name, _recruiter)


def recruiter_settings() -> dict[str, str]:
    """Return the help text of every platform-specific study setting, by name."""
    return {
        setting.name: setting.help
        for recruiter in RECRUITERS.values()
        for setting in recruiter.settings
    }
