"""`eyechart report`: finished runs as an HTML report, as figures, or as a model card."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.compare import Runs
from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.printing import log_to, print_notes
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import FAILED, Stop
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.phrases import count_of
from eyechart.core.registry import one_of, unknown_name
from eyechart.integrations.loggers.registry import Log, check_loggers
from eyechart.reports.hidden_paths import Hide, hidden_kinds
from eyechart.results.study_models import CATEGORIES

if TYPE_CHECKING:
    from eyechart.reports.html.structure_view import View

FORMATS = {"html": ".html", "md": ".md"}


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Settings of `eyechart report`: runs, additional contents, and format."""

    runs: Runs
    category: Annotated[
        tuple[str, ...],
        Option(
            help=f"Category of a model: {one_of(CATEGORIES)}; repeatable.",
            group="Models",
            metavar="MODEL=CATEGORY",
        ),
    ] = ()
    overlap: Annotated[
        Path | None,
        Option(
            help="Overlap matrix to show as a heat map: a CSV file or a study folder.",
            group="Data",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None
    structure: Annotated[
        tuple[Path, ...],
        Option(
            help="Structure study to include (style, subclass or superclass); repeatable.",
            group="Data",
            metavar="FOLDER",
            path="folder",
        ),
    ] = ()
    images: Annotated[
        Path | None,
        Option(
            help="With --serve: new location of the images, if they were moved.",
            group="Data",
            metavar="PATH",
            path="folder or file",
        ),
    ] = None
    out: Annotated[
        Path | None,
        Option(
            help="File to write; report.html or report.md if omitted.",
            group="Output",
            flags=("--out", "-o"),
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    format: Annotated[
        str | None,
        Option(
            help="html (self-contained page) or md (model card); from the suffix of --out if"
            " omitted.",
            group="Output",
        ),
    ] = None
    hub_dataset: Annotated[
        str | None,
        Option(
            help="With --format md: also write .eval_results for this benchmark dataset of the"
            " Hugging Face Hub.",
            group="Output",
            metavar="OWNER/NAME",
        ),
    ] = None
    source_url: Annotated[
        str | None,
        Option(
            help="With --hub-dataset: address of the report, for readers.",
            group="Output",
            metavar="URL",
        ),
    ] = None
    hide: Hide = ()
    log: Log = ()
    figures: Annotated[
        Path | None,
        Option(
            help="Also write every figure as SVG and PDF, in the layouts of the papers.",
            group="Output",
            metavar="FOLDER",
            path="folder",
        ),
    ] = None
    serve: Annotated[
        bool,
        Option(
            help="Serve the report and all test images on this machine until Ctrl-C.",
            group="Output",
        ),
    ] = False
    port: Annotated[
        int, Option(help="With --serve: port to listen on; 0 for any free port.", group="Output")
    ] = 0

    def check(self) -> None:
        """Raise a UsageError unless the settings are compatible with each other."""
        written = (self.out, self.figures, self.format, self.overlap)
        is_written = bool(self.structure) or any(option is not None for option in written)
        has_port = self.images is not None or self.port
        if self.hide and self.serve:
            raise UsageError("--hide applies to written reports only: omit it with --serve.")
        hidden_kinds(self.hide)
        if self.log and self.hide:
            raise UsageError("--log stores results.json, in which nothing is hidden: omit --hide.")
        if self.log and self.serve:
            raise UsageError("--log applies to written reports only: omit it with --serve.")
        check_loggers(self.log)
        if has_port and not self.serve:
            raise UsageError("--images and --port need --serve: add it, or omit them.")
        if self.serve and is_written:
            raise UsageError(
                "--serve writes no files: omit --out, --figures, --format, --overlap and"
                " --structure."
            )
        if self.source_url is not None and self.hub_dataset is None:
            raise UsageError("--source-url needs --hub-dataset: add it, or omit both.")
        if self.hub_dataset is not None:
            from eyechart.reports.terminal.hub_results import check_dataset

            check_dataset(self.hub_dataset, self.source_url)
            if self.serve or self.kind != "md":
                raise UsageError("--hub-dataset belongs to a model card: add --format md.")
        is_card = self.kind == "md"
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port must be from 0 to 65535, got {self.port}.")
        if is_card and self.overlap is not None:
            raise UsageError(
                "--overlap applies to html and figures only: omit it with --format md."
            )
        if is_card and self.structure:
            raise UsageError("--structure applies to html only: omit it with --format md.")

    @property
    def kind(self) -> str:
        """The requested format, or the format that the file's suffix implies."""
        ending = None if self.out is None else self.out.suffix.lower()
        if self.format is None:
            by_ending = {suffix: name for name, suffix in FORMATS.items()}
            if ending is not None and ending not in by_ending:
                raise UsageError(f"--out must end in .html or .md, got {self.out}.")
            return "html" if ending is None else by_ending[ending]
        if self.format not in FORMATS:
            raise unknown_name("format", self.format, FORMATS)
        if ending not in (None, FORMATS[self.format]):
            raise UsageError(
                f"--format {self.format} needs a file name ending in {FORMATS[self.format]}, got"
                f" {self.out}."
            )
        return self.format

    @property
    def target(self) -> Path:
        """The file to write."""
        if self.out is not None:
            return self.out
        name = f"report{FORMATS[self.kind]}"
        return self.runs[0] / name if len(self.runs) == 1 else Path(name)

    @property
    def categories(self) -> dict[str, str]:
        """The category of each model, by the model's name."""
        known = {category.lower(): category for category in CATEGORIES}
        by_model = {}
        for text in self.category:
            name, equals, category = text.rpartition("=")
            if not equals or not name:
                raise UsageError(
                    f"--category must be MODEL=CATEGORY, such as mine=ViT, got '{text}'."
                )
            if category.lower() not in known:
                raise unknown_name("category", category, CATEGORIES)
            by_model[name] = known[category.lower()]
        return by_model


@examples(
    "eyechart report runs/vcr runs/imagenet-c --out report.html --figures figures",
    "eyechart report eyechart-results --hide paths,names",
)
@derived_options
def report(settings: ReportSettings) -> None:
    """Write an HTML report, figures or a model card on finished runs.

    Runs on the same test set are reported together. With runs on ImageNet-C and VCR, the report
    also compares the rankings by both suites.
    """
    report_runs(settings)


def report_runs(settings: ReportSettings) -> None:
    """Write a report on runs, or serve it until Ctrl-C."""
    settings.check()
    from eyechart.reports.html.page import is_page
    from eyechart.reports.series.overlap import clustered, read_overlap
    from eyechart.reports.series.report import load_report
    from eyechart.reports.terminal.model_card import is_card

    studies: Sequence[View] = ()
    if settings.structure:
        from eyechart.reports.html.structure_view import structure_views

        studies = structure_views(list(settings.structure))
    scores = settings.overlap
    if scores is not None and scores.is_dir():
        scores = scores / "overlap.csv"
    overlap = None if scores is None else clustered(read_overlap(scores))
    loaded = load_report(list(settings.runs), settings.categories, settings.hide)
    if settings.serve:
        from eyechart.reports.browse.server import serve_report

        serve_report(loaded, settings.port, settings.images, _say_address)
        return
    target = settings.target
    check_file_to_write(target)
    if target.is_symlink() or (target.exists() and not (is_page(target) or is_card(target))):
        raise UsageError(
            f"{target} already exists and is not an eyechart report: choose another --out."
        )
    figures: Sequence[Path] = ()
    if settings.figures is not None:
        from eyechart.reports.figures.figure_files import plan_figures, write_drawings

        drawings, notes = plan_figures(loaded, overlap)
        with ProgressBars() as bars:
            figures = write_drawings(drawings, settings.figures, partial(bars.begin, "figures"))
        print_notes(notes)
    try:
        if settings.kind == "md":
            from eyechart.reports.terminal.model_card import write_card

            page = write_card(loaded, target)
        else:
            from eyechart.reports.html.report_page import write_report

            page = write_report(loaded, target, overlap, studies)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None
    print(f"Written:\n  {page}")
    if settings.hub_dataset is not None:
        from eyechart.reports.terminal.hub_results import write_eval_results

        for path in write_eval_results(
            loaded, target.parent, settings.hub_dataset, settings.source_url
        ):
            print(f"  {path}")
    if settings.figures is not None:
        print(f"  {settings.figures}: {count_of(len(figures), 'file')}")
    # Each run is logged by itself, with the page that shows it.
    failed = [
        sentence for run in loaded.runs for sentence in log_to(run.results, settings.log, page)
    ]
    if failed:
        raise Stop(" ".join(failed), FAILED)


def _say_address(address: str) -> None:
    print(f"{address}\nOpen it in a browser; stop with Ctrl-C.", flush=True)
