"""Human responses as columns, and the Parquet file that stores them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import CsvRow
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import read_header, read_parquet, write_parquet

Texts = NDArray[np.str_]
Columns = dict[str, Any]
"""Maps field names of `HumanResponses` to arrays."""

KIND, VERSION = "responses", "1"

TEXTS = (
    "corruption", "condition", "subject", "image", "label", "response", "clean_response", "study",
    "stimulus_set",
)  # fmt: skip
NUMBERS = ("delta_v", "correct", "consistent")
FACTS = ("source", "choices", "label_space", "citation", "license")

CLEAN = "clean"
"""Value of `corruption` for responses to clean images that belong to no particular experiment."""


SAME, DIFFERENT = "same", "different"


SIMULATED_COLUMN = "simulated"
"""Column of CSV tables with responses of robots; tables with human responses lack it."""


@dataclass(frozen=True)
class Judgement:
    """One same/different response to the corruptions `a` and `b`, in alphabetical order.

    `truth` and `response` are "same" or "different". `response` is "" if the participant did not
    respond in time; `subject` is "" if the participant is unknown.
    """

    a: str
    b: str
    subject: str
    truth: str
    response: str

    @property
    def correct(self) -> bool:
        """Whether the response is correct."""
        return self.truth == self.response


@dataclass(frozen=True)
class DroppedResponse:
    """A stimulus that a participant whose responses count did not respond to at first.

    The page was reloaded or left. If the stimulus was shown again, the response to it is among the
    responses.
    """

    corruption: str
    subject: str
    image: str
    delta_v: float


@dataclass(frozen=True)
class FlowStep:
    """One line of the flow of participants: a step, and how many reached it.

    `rule` is the quality rule of an exclusion, "" for other steps. `study` is "" unless several
    studies were merged.
    """

    step: str
    rule: str
    count: int
    study: str = ""


@dataclass(frozen=True, eq=False)
class HumanResponses:
    """Human responses by column: one row per response, or per `trials` responses with the same Δv.

    Unknown texts are "", unknown numbers are NaN.

    Attributes:
        corruption: Name of an eyechart corruption or of a published experiment.
        condition: Strength as named by the experiment.
        subject: Participant.
        image: Original image, before any corruption.
        label: True category.
        response: Response; "" if none was given.
        clean_response: Response to the clean version of the same image.
        study: Study to which the row belongs; "" unless several studies were merged.
        stimulus_set: Published experiment in which the image was shown, from the file name.
        delta_v: Visual change Δv in [0, 1].
        correct: 0 or 1, or the fraction of correct trials.
        consistent: 0 or 1, or the fraction of trials consistent with the clean image.
        trials: Number of responses in the row.
        source: Format or study from which the data comes.
        choices: Number of choices that participants had.
        label_space: Label space of the labels.
        citation: Citation of the data.
        license: License of the data.
        judgements: Same/different judgements stored with the responses.
        simulated: Whether any of the participants is a robot.
        dropped: Trials that participants dropped; see `dropped_bounds` in `dropped_trials`.
        flow: The flow of participants through the study, from arrival to the responses that count.
    """

    corruption: Texts
    condition: Texts
    subject: Texts
    image: Texts
    label: Texts
    response: Texts
    clean_response: Texts
    study: Texts
    stimulus_set: Texts
    delta_v: FloatArray
    correct: FloatArray
    consistent: FloatArray
    trials: NDArray[np.int64]
    source: str
    choices: int
    label_space: str
    citation: str = ""
    license: str = ""
    judgements: tuple[Judgement, ...] = ()
    simulated: bool = False
    dropped: tuple[DroppedResponse, ...] = ()
    flow: tuple[FlowStep, ...] = ()

    def __post_init__(self) -> None:
        for name in (*TEXTS, *NUMBERS, "trials"):
            if len(getattr(self, name)) != len(self):
                raise UsageError(f"{name} must have one value per row: {len(self)}.")
        for name in NUMBERS:
            known = getattr(self, name)
            known = known[~np.isnan(known)]
            if known.size and not (known.min() >= 0 and known.max() <= 1):
                raise UsageError(f"{name} must be in [0, 1].")
        if len(self) and self.trials.min() < 1:
            raise UsageError("trials must be at least 1.")
        if self.choices < 2:
            raise UsageError(f"choices must be at least 2, got {self.choices}.")

    def __len__(self) -> int:
        return len(self.corruption)

    def only(self, rows: NDArray[np.generic]) -> "HumanResponses":
        """Return the responses in the rows selected by a mask or by indices."""
        columns = {name: getattr(self, name)[rows] for name in (*TEXTS, *NUMBERS, "trials")}
        return replace(self, **columns)

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names in `corruption` in order of first appearance, without "clean"."""
        return tuple(name for name in dict.fromkeys(self.corruption.tolist()) if name != CLEAN)


def make_responses(
    count: int, *, source: str, choices: int, label_space: str, **known: Any
) -> HumanResponses:
    """Return responses with the given columns; values in all other columns are unknown.

    `correct` and `consistent` are computed from `response`, `label` and `clean_response` unless
    they are passed. A missing response is incorrect.

    Example:
        >>> responses = make_responses(
        ...     2, source="demo", choices=16, label_space="entry16", label=["cat", "dog"],
        ...     response=["cat", "bear"],
        ... )
        >>> responses.correct.tolist()
        [1.0, 0.0]
    """
    columns: Columns = {
        name: np.asarray(known.pop(name, np.full(count, "")), dtype=np.str_) for name in TEXTS
    }
    columns["trials"] = np.asarray(known.pop("trials", np.ones(count)), dtype=np.int64)
    for name, truth in (("correct", columns["label"]), ("consistent", columns["clean_response"])):
        # Without a label or clean response, correctness is unknown rather than false.
        agrees = np.where(truth != "", columns["response"] == truth, np.nan)
        columns[name] = np.asarray(known.pop(name, agrees), dtype=np.float64)
    columns["delta_v"] = np.asarray(known.pop("delta_v", np.full(count, np.nan)), dtype=np.float64)
    return HumanResponses(
        **columns, source=source, choices=choices, label_space=label_space, **known
    )


def are_simulated(rows: Iterable[CsvRow]) -> bool:
    """Return whether any row of a table is marked as a response of a robot."""
    return any(row.cells.get(SIMULATED_COLUMN, "0") not in ("", "0") for row in rows)


def write_responses(path: Path, responses: HumanResponses) -> None:
    """Write responses to a Parquet file atomically; only a response file is overwritten."""
    # Never overwrite any other kind of file.
    if path.exists() and not _is_ours(path):
        raise UsageError(
            f"{path} already exists and is not an eyechart response file: choose another file."
        )
    facts = {name: getattr(responses, name) for name in FACTS}
    facts["judgements"] = list(map(astuple, responses.judgements))
    # Only files of studies contain these, so that other files stay as they were.
    of_study = {
        "dropped": list(map(astuple, responses.dropped)),
        "flow": list(map(astuple, responses.flow)),
        "simulated": responses.simulated,
    }
    facts |= {name: value for name, value in of_study.items() if value}
    metadata = {
        "eyechart.kind": KIND,
        "eyechart.version": VERSION,
        "eyechart.facts": json.dumps(facts, ensure_ascii=False),
    }
    if responses.simulated:
        # Also by itself, for readers of Parquet who do not know eyechart.
        metadata["eyechart.simulated"] = "true"
    columns = {name: getattr(responses, name) for name in (*TEXTS, *NUMBERS, "trials")}
    arrays = {
        name: pa.array(values.tolist(), pa.string()) if name in TEXTS else pa.array(values)
        for name, values in columns.items()
    }
    write_parquet(pa.table(arrays).replace_schema_metadata(metadata), path)


def read_responses(path: Path) -> HumanResponses:
    """Return the responses in a file written by `write_responses`.

    Raises:
        UsageError: If the file is damaged, has a different version or is not a response file.
    """
    header = read_header(path)
    if header.get("eyechart.kind") != KIND:
        raise UsageError(
            f"{path} is not an eyechart response file: create one with `eyechart humans import`."
        )
    version = header.get("eyechart.version")
    if version != VERSION:
        raise UsageError(f"{path} has version {version}, not {VERSION}: import the data again.")
    table = read_parquet(path)
    try:
        facts = json.loads(header["eyechart.facts"])
        # Few, and stored in the header; responses are columns.
        for name, kind in (
            ("judgements", Judgement), ("dropped", DroppedResponse), ("flow", FlowStep),
        ):  # fmt: skip
            facts[name] = tuple(kind(*values) for values in facts.get(name, ()))
        columns: Columns = {
            name: np.array(table[name].to_pylist(), dtype=np.str_) for name in TEXTS
        }
        # Convert to one dtype, because files may have been written with different ones.
        columns |= {name: table[name].to_numpy().astype(np.float64) for name in NUMBERS}
        columns["trials"] = table["trials"].to_numpy().astype(np.int64)
        return HumanResponses(**columns, **facts)
    except (KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{path} is damaged ({reason}): import the data again.") from None


def join_responses(parts: Sequence[HumanResponses]) -> HumanResponses:
    """Return the rows of several sets of responses as one set, with the first set's metadata.

    The result is simulated if any of them is, and has the dropped trials and the flow of all.
    """
    columns: Columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*TEXTS, *NUMBERS, "trials")
    }
    return replace(
        parts[0],
        **columns,
        simulated=any(part.simulated for part in parts),
        dropped=tuple(trial for part in parts for trial in part.dropped),
        flow=tuple(step for part in parts for step in part.flow),
    )


def _is_ours(path: Path) -> bool:
    try:
        return read_header(path).get("eyechart.kind") == KIND
    # Metadata written by other programs may not be text.
    except (UsageError, UnicodeDecodeError):
        return False


def clusters_of(responses: HumanResponses) -> NDArray[np.str_]:
    """Return each response's bootstrap cluster: its image or, if unknown, its participant."""
    return np.where(responses.image != "", responses.image, responses.subject)


def apart_if_unknown(clusters: NDArray[np.str_]) -> NDArray[np.str_] | None:
    """Return the clusters, with a separate cluster for each response whose cluster is unknown.

    Return None if all clusters are unknown.
    """
    unknown = clusters == ""
    if unknown.all():
        return None
    alone = np.char.add("answer ", np.arange(len(clusters)).astype(np.str_))
    # A common cluster for all of these responses would be resampled as a single unit.
    return np.where(unknown, alone, clusters)


def one_by_one(responses: HumanResponses, hits: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Split rows into single responses; return the row of each one and whether it is a hit.

    A row with 14 hits in 15 responses becomes 14 ones and a zero, so that single responses are
    resampled. If a row's number of hits is not an integer, each of its responses gets the row's hit
    rate.
    """
    rows = np.repeat(np.arange(len(responses)), responses.trials)
    starts = np.cumsum(responses.trials) - responses.trials
    # Position of each single response within its row: the first ones are the hits.
    position = np.arange(len(rows)) - starts[rows]
    total = hits * responses.trials
    # Rates such as 14/15 come back from a float column with rounding error.
    is_whole = np.abs(total - np.rint(total)) < 1e-6
    return rows, np.where(is_whole[rows], position < np.rint(total)[rows], hits[rows]).astype(
        np.float64
    )


def anchor_of(
    clean: HumanResponses,
    hits: FloatArray,
    clusters: NDArray[np.str_],
    weights: FloatArray | None = None,
) -> float | NDArray[np.float64] | None:
    """Return the hit rate on clean images, at which the curve starts; None if it is unknown.

    If responses share clusters with clean responses, the result has one value per response: the
    clean hit rate of its cluster. Otherwise the result is one number, the mean over clusters;
    its sampling error is ignored. `weights`: weights of the clean responses; None for equal ones.
    """
    if not len(clean) or (weights is not None and not weights.any()):
        return None
    counts = clean.trials if weights is None else clean.trials * weights
    # Rates per image, so that the anchor is resampled together with the responses to that image.
    names, index = np.unique(clusters_of(clean), return_inverse=True)
    totals = np.bincount(index, counts)
    rates = np.bincount(index, hits * counts) / np.where(totals > 0, totals, 1)
    share = None if weights is None else totals / np.bincount(index, clean.trials)
    mean = float(np.average(rates, weights=share))
    shared = np.isin(clusters, names)
    if not shared.any() or (names == "").all():
        return mean
    # searchsorted may point past the end for clusters that are not shared; these get the mean.
    nearest = np.minimum(np.searchsorted(names, clusters), len(names) - 1)
    return np.where(shared, rates[nearest], mean)
