"""The ledger of a study: what was sent to a platform, so that nobody is paid twice.

A line is written before a request is sent and another one after its reply. If the reply is lost,
the first one remains.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from eyechart.core.errors import UsageError
from eyechart_experiment.recruiters.api.platform_api import PayAction
from eyechart_experiment.storage.experiment_folder import append_private

FILE = "payments.jsonl"
CREATED = ("create", "done")
Action = PayAction | Literal["create"]
Entry = Mapping[str, object]
StepState = Literal["sent", "done", "failed"]


@dataclass(frozen=True)
class Ledger:
    """The ledger in a study's folder, for one platform's address."""

    path: Path
    url: str

    def state(self, action: Action, participant: str) -> StepState | None:
        """Return the last known state of a step; "sent" if its reply never arrived."""
        entry = self._last(action, participant)
        return None if entry is None else entry["state"]  # type: ignore[return-value]

    def listing(self) -> Entry | None:
        """Return what was recorded about the newest listing on the platform, if there is one."""
        # A listing belongs to the study and not to a participant, hence the empty name.
        entry = self._last("create", "")
        return entry if entry is not None and entry["state"] == "done" else None

    def write(
        self, action: Action, participant: str, state: StepState, **more: str | int | float
    ) -> None:
        """Add a line, on disk before this returns."""
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "url": self.url,
            "action": action,
            "participant": participant,
            "state": state,
            **more,
        }
        # On disk: after a power failure, a request that was sent must not look as if it never was.
        append_private(self.path, json.dumps(entry))

    def _last(self, action: Action, participant: str) -> Entry | None:
        # By address too: a trial in the sandbox must not count as paid.
        steps = (
            entry
            for entry in self._entries()
            if (entry["url"], entry["action"], entry["participant"])
            == (self.url, action, participant)
        )
        return next(reversed(list(steps)), None)

    def _entries(self) -> list[Entry]:
        return _read(self.path)


def _read(path: Path) -> list[Entry]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except FileNotFoundError:
        return []
    # A damaged line is not skipped: it may be the record of a payment.
    except (OSError, ValueError):
        raise UsageError(
            f"{path} cannot be read: restore it from a backup before anybody is paid."
        ) from None


def open_ledger(study: Path, url: str) -> Ledger:
    """Return the ledger of a study for the platform at this address."""
    return Ledger(study / FILE, url)


def newest_listing(study: Path) -> Entry | None:
    """Return what was recorded about the newest listing on any platform, if there is one."""
    entries = _read(study / FILE)
    listings = (entry for entry in entries if (entry["action"], entry["state"]) == CREATED)
    return next(reversed(list(listings)), None)
