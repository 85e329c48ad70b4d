"""Studies of new styles and new kinds as a page of their own."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.version import __version__
from eyechart.reports.page.render import (
    GENERATOR,
    environment,
    page_css,
    page_policy,
    page_scripts,
    page_specs,
)
from eyechart.reports.structure_view import structure_views


def write_structure_page(folders: Sequence[Path], path: Path) -> Path:
    """Write the page on these studies to a file and return its path."""
    views = structure_views(folders)
    charts = [chart for view in views for chart in view.charts]
    scripts = page_scripts()
    kinds = "1 study" if len(views) == 1 else f"{len(views)} studies"
    text = environment().get_template("structure_page.html").render(
        structure=views,
        summary=f"{kinds} of what was held out of training: how well is it recognised?",
        policy=page_policy(scripts),
        css=page_css(),
        specs=page_specs(charts),
        scripts=scripts,
        generator=Markup(GENERATOR),
        version=__version__,
    )  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    return path
