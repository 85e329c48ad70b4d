"""The options that commands which read human references have in common."""

from typing import Annotated

import typer

CleanResponses = Annotated[
    str | None,
    typer.Option(
        "--clean-responses",
        "--clean-answers",
        help="For consistency, which response to the clean image humans' are compared with: given,"
        " majority or random.",
    ),
]
