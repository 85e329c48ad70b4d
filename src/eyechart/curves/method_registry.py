"""The fitting methods by name. A new one is a `CurveMethod` in `methods` and one line here.

Nothing slow is imported here, because the command line lists the methods.
"""

from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    from eyechart.curves.methods import CurveMethod

DEFAULT_METHOD = "least-squares"

METHODS: "Registry[CurveMethod]" = Registry("method")
METHODS.add_lazily(DEFAULT_METHOD, "eyechart.curves.methods:LEAST_SQUARES")
METHODS.add_lazily("cobs", "eyechart.curves.methods:COBS")
METHODS.add_lazily("pava", "eyechart.curves.methods:PAVA")
