"""The main function of worker processes, which end with their driver.

Nothing slow is imported here, so that a process also ends if its driver dies while it starts.
"""

import os
import threading
from multiprocessing import connection, parent_process
from typing import Any

from eyechart.core.process import quick_imports


def run_worker(pipe: "connection.Connection[Any, Any]", order: bytes) -> None:
    """Run the items that come through the pipe, as `order` (a pickled record) says."""
    threading.Thread(target=_end_with_driver, daemon=True).start()
    # Workers have more threads than there are cores; those that wait must leave them to others. It
    # is read when torch is imported, which happens here.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with quick_imports():
        from eyechart.predictions.processes import work

    work(pipe, order)


def _end_with_driver() -> None:
    """End this process when the driver dies, in the middle of a batch too."""
    driver = parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)
