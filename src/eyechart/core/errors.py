"""The exceptions that users see; every message is one sentence that says what to do."""

import errno

INSTALL = 'pip install -e ".[{}]"  in a clone of eyechart'
"""How to install an extra until the package index has a release, then 'pip install "eyechart[{}]"'.
docs/tutorial/install.md says the same for all pages.
"""

MEMORY_SIGNS = (
    *("out of memory", "not enough memory", "insufficient memory", "can't allocate memory"),
    *("cannot allocate memory", "memoryerror"),
    # Each thread needs memory for its stack.
    *("can't start new thread", "failed to map segment from shared object"),
)
"""What messages of packages contain when memory runs out."""


class UsageError(ValueError):
    """Invalid user input; the command line prints the message and exits with status 2.

    It is a subclass of ValueError, so code that catches ValueError needs no change.

    Example:
        >>> import eyechart as ec
        >>> try:
        ...     ec.describe_corruption("gausian_noise")
        ... except ec.UsageError as error:
        ...     print(error)
        Unknown corruption 'gausian_noise'. Did you mean 'gaussian_noise'...
    """


class CheckFailed(Exception):
    """A requested check failed (such as `fail_under`) after the evaluation was completed.

    Attributes:
        results: the results of the run, which are complete despite the failed check.

    Example:
        >>> import eyechart as ec
        >>> try:
        ...     raise ec.CheckFailed("HMRI of resnet50 is below 0.9.", results=None)
        ... except ec.CheckFailed as failure:
        ...     print(failure)
        HMRI of resnet50 is below 0.9.
    """

    def __init__(self, sentence: str, results: object) -> None:
        super().__init__(sentence)
        self.results = results


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, on a GPU or on the CPU.

    Example:
        >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
        True
    """
    if isinstance(error, UsageError):
        return False
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    # Allocators of torch raise a RuntimeError, and OpenCV raises an Exception called `error`.
    text = str(error).lower()
    return any(sign in text for sign in MEMORY_SIGNS)


def reason_of(error: BaseException, otherwise: str = "") -> str:
    """Return the message of another package's error on one line, to be quoted in a sentence.

    Example:
        >>> reason_of(OSError("Disk  full."))
        'Disk full'
    """
    return " ".join(str(error).split()).rstrip(".") or otherwise or type(error).__name__


def install_hint(extra: str) -> str:
    """Return what to do if packages of an extra are missing, for error messages.

    Example:
        >>> install_hint("demo")
        'run  pip install -e ".[demo]"  in a clone of eyechart first'
    """
    return f"run  {INSTALL.format(extra)} first"
