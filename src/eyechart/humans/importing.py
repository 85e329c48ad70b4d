"""Import human responses from tables of experiments; each format has a module in `importers`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from eyechart.core.csv_table import CsvRow
from eyechart.core.errors import UsageError
from eyechart.core.options import takes_fields_of
from eyechart.humans.human_responses import CLEAN, HumanResponses
from eyechart.humans.import_settings import ImportSettings
from eyechart.humans.importers import FORMATS
from eyechart.humans.same_different import read_single_judgements
from eyechart.images.labels.imagenet import CATEGORIES

NO_RESPONSE = ("", "na", "nan", "none")


@takes_fields_of(ImportSettings)
def import_responses(settings: ImportSettings) -> HumanResponses:
    """Return the responses in CSV files that have one of the `FORMATS`."""
    read = FORMATS[str(settings.form)]
    if not settings.files:
        raise UsageError("Pass at least one file to import.")
    responses = read(settings.files, settings)
    judgements = (
        () if settings.judgements is None else tuple(read_single_judgements(settings.judgements))
    )
    return replace(
        responses, citation=settings.citation, license=settings.license, judgements=judgements
    )


def corruption_of(row: CsvRow, options: ImportSettings) -> str:
    """Return the corruption of a row, from its table or from the option --corruption."""
    check_corruption(row, options)
    return options.corruption or _column(row, "corruption")


def check_corruption(row: CsvRow, options: ImportSettings) -> bool:
    """Return True; raise a UsageError if the table and the option name different corruptions."""
    corruption = row.cells.get("corruption", "")
    if options.corruption and corruption not in ("", CLEAN, options.corruption):
        raise row.rejection(
            f"corruption is {corruption}, not {options.corruption}: omit --corruption, which is "
            "only for tables without that column"
        )
    return True


def _column(row: CsvRow, name: str) -> str:
    if name not in row:
        raise UsageError(
            f"{row.path} must name the corruption of the images: pass --{name}, or add a column"
            f" {name}."
        )
    return row.filled(name)


class Labeled(NamedTuple):
    """Labels and responses of a table, with the number of choices and the label space."""

    labels: list[str]
    responses: list[str]
    choices: int
    label_space: str


def read_labels(
    rows: Sequence[CsvRow],
    column: str,
    raw_responses: Sequence[str],
    options: ImportSettings,
    clean: Sequence[str] = (),
) -> Labeled:
    """Return labels and responses with the number of choices and the label space.

    `clean`: responses to the clean images; empty if the table has none.
    """
    labels = [row.filled(column) for row in rows]
    responses = [response_of(text) for text in raw_responses]
    # 16 choices mean the 16 categories unless another label space is passed.
    sixteen = options.choices == 16 and options.label_space in (None, "entry16")
    if sixteen or (options.choices is None and set(labels) <= set(CATEGORIES)):
        for row, *texts in zip(rows, labels, responses, clean or responses, strict=True):
            for text in texts:
                if text and text not in CATEGORIES:
                    raise row.rejection(f"'{text}' is not one of the 16 categories; pass --choices")
        return Labeled(labels, responses, 16, "entry16")
    if options.choices is None:
        strange = next(row for row in rows if row[column] not in CATEGORIES)
        raise strange.rejection(
            f"'{strange[column]}' is not one of the 16 categories: pass the number of choices "
            "(choices)"
        )
    space = options.label_space or f"{options.choices} choices"
    return Labeled(labels, responses, options.choices, space)


def response_of(text: str) -> str:
    """Return a response in the normalized form used for comparison; "" for no response."""
    # Tables of model-vs-human write "na" for missed trials.
    return "" if text.lower() in NO_RESPONSE else text
