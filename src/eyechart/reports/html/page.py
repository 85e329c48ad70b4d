"""Shared parts of all pages: head, scripts, content security policy, and writing."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from eyechart.core.arguments import regular_file
from eyechart.core.version import __version__
from eyechart.reports.html.charts.chart import Chart
from eyechart.reports.series.gallery import Gallery

GENERATOR = '<meta name="generator" content="eyechart report '
"""Beginning of the meta tag by which pages written by eyechart are recognized."""

# Scripts are allowed by hash. Hashes do not cover style attributes, which swatches and shaded cells
# have, so that inline styles are allowed.
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {};"
    " base-uri 'none'; form-action 'none'"
)


def page_templates() -> Environment:
    """Return the Jinja environment of the page templates; undefined names raise an error."""
    return Environment(
        loader=PackageLoader("eyechart.reports.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(template: str, charts: Sequence[Chart] | None = None, **values: object) -> str:
    """Return the text of a page with styles and scripts embedded.

    Without `charts`, the page has no charts, and its only script sets the theme.
    """
    scripts = {"theme": _script(page_file("theme.js"))}
    if charts is not None:
        # Slow to import, and not needed by pages without charts.
        from plotly.offline import get_plotlyjs

        scripts |= {name: _script(page_file(f"{name}.js")) for name in ("report", "charts")}
        scripts["plotly"] = _script(get_plotlyjs())
        values["specs"] = _specs(charts)
    # Only these scripts are allowed.
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in scripts.values())
    return (
        page_templates()
        .get_template(template)
        .render(
            **values,
            policy=POLICY.format(" ".join(f"'sha256-{digest}'" for digest in digests)),
            css=Markup(page_file("report.css")),
            scripts=scripts,
            generator=Markup(GENERATOR),
            version=__version__,
        )
    )


def render_gallery(gallery: Gallery) -> str:
    """Return the text of a gallery's page with its images embedded."""
    environment = page_templates()
    # High enough quality that compression adds nothing visible.
    environment.filters["inline"] = partial(image_uri, quality=92, subsampling=0)
    columns = max(len(row.cells) for rows in gallery.groups.values() for row in rows)
    return environment.get_template("gallery.html").render(gallery=gallery, columns=columns + 1)


def image_uri(image: Image.Image, kind: str = "jpeg", **options: int) -> str:
    """Return an image as a data URI; `options` are passed to Pillow's writer."""
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return data_uri(buffer.getvalue(), kind)


def data_uri(content: bytes, kind: str) -> str:
    """Return the content of a file as a data URI."""
    return f"data:image/{kind};base64,{b64encode(content).decode()}"


def is_page(path: Path) -> bool:
    """Return whether a file is a page that eyechart wrote, so that it may be overwritten."""
    try:
        with regular_file(path).open("rb") as file:
            # The tag is in the head; a page may have several MB.
            return GENERATOR.encode() in file.read(4096)
    except OSError:
        return False


def page_file(name: str) -> str:
    """Return the text of a style sheet, script or page."""
    return (files("eyechart.reports.html") / "templates" / name).read_text(encoding="utf-8")


def _script(text: str) -> Markup:
    """Return a script as embedded in the page, with the line endings that browsers hash."""
    return Markup("\n" + text.replace("\r\n", "\n").replace("\r", "\n").strip() + "\n")


def _specs(charts: Sequence[Chart]) -> Markup:
    """Return the charts as JSON that is safe inside a script element."""
    specs = {chart.id: chart.spec for chart in charts}
    # A NaN is not valid JSON, and one of them would keep the browser from reading any chart.
    text = json.dumps(specs, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # "</script>" inside the JSON would end the element.
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
