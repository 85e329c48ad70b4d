"""Edits the HTML of the pages where the theme or Markdown leaves something without a name."""

import re
from typing import Any

SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'
EMPTY = r"<th[^>]*></th>"


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without empty headings of tables (MkDocs calls this for every page)."""
    html = re.sub(rf"<thead>\s*<tr>\s*(?:{EMPTY}\s*)+</tr>\s*</thead>\s*", "", html)
    return re.sub(EMPTY, "<td></td>", html)


def on_post_page(output: str, **_: Any) -> str:
    """Return a page whose search has a name (MkDocs calls this for every page)."""
    return output.replace(f"{SEARCH}>", f'{SEARCH} aria-label="Search">')


def on_post_template(output_content: str, **_: Any) -> str:
    """Return the same of the page that says that there is no such page."""
    return on_post_page(output_content)
