"""Studies of new styles and new kinds as a page of their own."""

from collections.abc import Sequence
from pathlib import Path

from eyechart.reports.html.page import render_page, write_page
from eyechart.reports.html.structure_view import structure_views


def write_structure_page(folders: Sequence[Path], path: Path) -> Path:
    """Write the page on these studies to a file and return its path."""
    views = structure_views(folders)
    kinds = "1 study" if len(views) == 1 else f"{len(views)} studies"
    text = render_page(
        "structure_page.html",
        [chart for view in views for chart in view.charts],
        structure=views,
        title="New styles and new kinds",
        summary=f"{kinds} of what was held out of training: how well is it recognised?",
    )
    return write_page(text, path)
