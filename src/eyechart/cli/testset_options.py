"""The options that commands which draw test sets have in common."""

from typing import Annotated

import typer

Definition = Annotated[
    str,
    typer.Option(
        help="The definition of visual change: vcr or sheikh2006; only vcr has humans to compare"
        " with."
    ),
]
Jpeg = Annotated[
    int | None,
    typer.Option(
        metavar="QUALITY",
        help="Store every corrupted picture as JPEG and read it back; ImageNet-C's files are at"
        " 85.",
    ),
]
Pictures = Annotated[
    int | None, typer.Option(help="Use so many pictures only, as many of every class.")
]
Balanced = Annotated[
    bool, typer.Option("--balanced/--unbalanced", help="Draw classes equally often, or not.")
]
