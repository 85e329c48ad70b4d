"""Renders the notebooks in docs/notebooks as pages, with the outputs that are stored in them.

`make notebooks` runs the notebooks and stores their outputs.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter


class NotebookPage(File):
    """A notebook that MkDocs handles as a page: in the navigation, in links and in the search."""

    def is_documentation_page(self) -> bool:
        """Return True, although the file name does not end in .md."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace each notebook by a page and the images in its outputs."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb") and file.abs_src_path:
            text, images = render(Path(file.abs_src_path))
            files.remove(file)
            files.append(NotebookPage.generated(config, file.src_uri, content=text))
            folder = file.src_uri.rpartition("/")[0]
            for name, content in images.items():
                files.append(File.generated(config, f"{folder}/{name}", content=content))
    return files


def render(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and the images that it shows by their file names."""
    text, resources = MarkdownExporter().from_filename(
        str(path), {"output_files_dir": f"{path.stem}_files", "unique_key": path.stem}
    )
    # The theme has its own style for tables.
    text = re.sub(r"<style scoped>.*?</style>\n?", "", text, flags=re.DOTALL)
    text = text.replace('<table border="1" class="dataframe">', "<table>")
    text = text.replace(' style="text-align: right;"', "")
    return text.replace("![png](", "![Chart drawn by the code above]("), dict(resources["outputs"])
