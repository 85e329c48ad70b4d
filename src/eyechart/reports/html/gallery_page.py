"""A gallery as one HTML page that needs nothing beside itself."""

from base64 import b64encode
from io import BytesIO

from PIL import Image

from eyechart.reports.html.page import page_templates
from eyechart.reports.series.gallery import Gallery


def render_page(gallery: Gallery) -> str:
    """Return the page's text; the pictures are inside it."""
    environment = page_templates()
    environment.filters["inline"] = inline
    columns = max(len(row.cells) for group in gallery.groups for row in group.rows)
    return environment.get_template("gallery.html").render(gallery=gallery, columns=columns + 1)


def inline(picture: Image.Image) -> str:
    """Return the picture as a data URI: JPEG, fine enough that the page adds nothing visible."""
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=92, subsampling=0)
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()
