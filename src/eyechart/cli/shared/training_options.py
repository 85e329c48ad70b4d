"""The options that commands which train have in common, for those without a record."""

from typing import Annotated

import typer

Stimulus = Annotated[
    str,
    typer.Option(
        help="224 (shorter side 256, middle 224) or another side, 224x224 (plain resize) or another"
        " WIDTHxHEIGHT, or native."
    ),
]
Every = Annotated[
    int, typer.Option(help="Only every so-many-th class by name: 10 makes ImageNet-100 of it.")
]
