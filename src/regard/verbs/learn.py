"""Learn: the pages of the tutorial as notebooks."""

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from regard.errors import FolderError, MissingExtra
from regard.verbs.shared.arguments import checked

FOLDER = "learn-regard"
PAGE_LINK = re.compile(r"\]\((\d\d-[\w-]+)\.md\)")
BOOK_LINK = re.compile(r"\[([^\]]+)\]\(\.\.[^)]*\)")  # to a page of the book outside of the tutorial


@dataclass(frozen=True, kw_only=True)
class Notebooks:
    """A folder of notebooks: those that were written, and those that were there and stay as they are."""

    folder: Path
    written: tuple[Path, ...]
    kept: tuple[Path, ...]


@checked
def learn(*, out: str | Path | None = None) -> Notebooks:
    """Write the pages of the tutorial as Jupyter notebooks; notebooks that exist are kept.

    Args:
        out: the folder to write them in; None is `learn-regard`.

    Raises:
        MissingExtra: jupytext is not installed. FolderError: the folder cannot be written.
    """
    try:
        import jupytext
    except ImportError:
        raise MissingExtra("jupytext", "learn", "writing notebooks") from None
    folder, written, kept = Path(out or FOLDER), [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for page in tutorial_pages():
            notebook = folder / f"{page.stem}.ipynb"
            if notebook.exists():
                kept.append(notebook)
                continue
            notebook.write_text(jupytext.writes(_for_jupyter(jupytext.read(page)), "ipynb"), "utf-8")
            written.append(notebook)
    except OSError as error:
        raise FolderError(
            f"{folder}: notebooks cannot be written: {error.strerror}", "name another folder with --out"
        ) from None
    return Notebooks(folder=folder, written=tuple(written), kept=tuple(kept))


def _for_jupyter(notebook: Any) -> Any:
    """The notebook with answers that Jupyter hides, too, and links that lead from notebook to notebook."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", ())
        if "hide-cell" in tags:
            cell.metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
        elif "hide-input" in tags:
            cell.metadata["jupyter"] = {"source_hidden": True}
        if cell.cell_type == "markdown":
            cell.source = BOOK_LINK.sub(r"\1", PAGE_LINK.sub(r"](\1.ipynb)", cell.source))
    return notebook


def tutorial_pages() -> list[Path]:
    """The pages in order, in the installed package or in the checkout."""
    package = Path(str(resources.files("regard")))
    inside, outside = package / "learn", package.parent.parent / "docs" / "learn"
    pages = sorted((inside if inside.is_dir() else outside).glob("[0-9]*.md"))
    if not pages:
        raise FolderError(
            "the tutorial is missing from this installation", "pip install --force-reinstall regard"
        )
    return pages
