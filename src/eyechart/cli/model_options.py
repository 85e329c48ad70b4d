"""The options that commands which load models have in common."""

from typing import Annotated

import typer

Download = Annotated[
    bool, typer.Option("--download", help="Fetch weights that are not on this machine.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Also load files that can run code when loaded.")
]
