"""Options of `experiment deploy`; apart, because the command line reads them at every start."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Option

SERVER = "Server"
# With at least one dot: public certificates are not issued for a bare host name.
DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
PLAIN_PATH = re.compile(r"/[\w./+-]+")
"""Paths that need no quoting in the files of systemd, nginx and logrotate, which all differ."""


@dataclass(frozen=True, kw_only=True)
class DeploySettings:
    """The server on which a study will run."""

    domain: Annotated[
        str, Option(help="Host name of the server, such as lab.example.org.", group=SERVER)
    ]
    user: Annotated[
        str, Option(help="System user, and database role, that runs the study.", group=SERVER)
    ] = "eyechart"
    folder: Annotated[
        Path | None,
        Option(
            help="Where the study's folder is on the server; where it is now if omitted.",
            group=SERVER,
            metavar="FOLDER",
            path="folder",
        ),
    ] = None
    command: Annotated[
        Path | None,
        Option(
            help="The eyechart program on the server; the one that runs now if omitted.",
            group=SERVER,
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    port: Annotated[
        int,
        Option(
            help="First of the ports on which processes listen.",
            group=SERVER,
            minimum=1024,
            maximum=65000,
        ),
    ] = 8001
    backups: Annotated[
        Path,
        Option(help="Folder for backups.", group=SERVER, metavar="FOLDER", path="folder"),
    ] = Path("/var/backups/eyechart")
    certificates: Annotated[
        Path | None,
        Option(
            help="Folder with fullchain.pem and privkey.pem; certbot's folder if omitted.",
            group=SERVER,
            metavar="FOLDER",
            path="folder",
        ),
    ] = None

    def check(self) -> None:
        """Raise `UsageError` if a name or a path cannot be written into the files."""
        if not DOMAIN.fullmatch(self.domain):
            raise UsageError(f"domain must be a host name, such as lab.example.org, got"
                             f" '{self.domain}'.")  # fmt: skip
        if not USER.fullmatch(self.user):
            raise UsageError(f"user must be the name of a system user, got '{self.user}'.")
