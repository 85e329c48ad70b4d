"""Import torch and everything that needs it in less time."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Collect no garbage during the imports in this block, nor ever among what they import.

    Collections search all that was imported so far, again and again, which takes a sixth of the
    time. Modules stay until the process ends, so there is nothing to find.
    """
    # What is imported already has no cost, and objects of a caller must remain collectable.
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
