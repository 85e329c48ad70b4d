"""Which corruptions look alike to people, so that answers to one may speak for another.

The classes are those that the VCR study found. Nothing else is ever transferred.
"""

CLASSES = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise", "uniform_noise"),
    "blur": ("gaussian_blur", "blur", "median_blur", "glass_blur", "defocus_blur"),
}
"""By the names that these corruptions have in ImageNet-C and, behind `vcr/`, in VCR."""

EXPERIMENTS = {"noise": "noise", "lowpass": "blur"}
"""The class that a published experiment belongs to."""

SAME = {"lowpass": "gaussian_blur", "contrast": "contrast"}
"""Which corruption a published experiment is, but for colour.

The experiment `noise` is none: contrast was cut to 30 % before the noise was added.
"""


def class_of(name: str) -> str | None:
    """Return the class of a corruption or an experiment; None where it has none."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    bare = bare_name(name)
    return next((each for each, members in CLASSES.items() if bare in members), None)


def is_direct(experiment: str, corruption: str) -> bool:
    """Whether people were shown this corruption itself."""
    return experiment == corruption or SAME.get(experiment) == bare_name(corruption)


def bare_name(corruption: str) -> str:
    """Return the name without VCR's prefix; names of other suites stay what they are."""
    return corruption.removeprefix("vcr/")


def members_of(experiment: str) -> tuple[str, ...]:
    """Return the bare names of the corruptions that an experiment speaks for, itself first."""
    own = SAME.get(experiment)
    kind = class_of(experiment)
    alike = CLASSES.get(kind, ()) if kind else ()
    first = (own,) if own else () if experiment in EXPERIMENTS else (experiment,)
    return tuple(dict.fromkeys((*first, *alike)))
