"""Read pickles of arrays and plain values without executing code."""

import io
import pickle
from typing import Any

ALLOWED = frozenset(
    {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        # NumPy 2 renamed numpy.core to numpy._core; files with either name exist.
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        # Protocols before 3 store bytes as text, which this function converts back.
        ("_codecs", "encode"),
    }
)
"""Classes and functions needed to unpickle arrays; anything else could run code."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return an allowed class or function; raise an UnpicklingError for any other name."""
        # Unpickling runs any code that a file names, so only constructors of arrays are allowed.
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return super().find_class(module, name)


def read_pickle(content: bytes, encoding: str = "bytes") -> Any:
    """Return the content of a pickle; raise a ValueError if it cannot be read safely."""
    try:
        return _Plain(io.BytesIO(content), encoding=encoding).load()
    # Damaged pickles can raise almost any exception; callers get a ValueError.
    except Exception as error:
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None
