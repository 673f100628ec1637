"""A look as one HTML file, which needs no server and no network."""

import html
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from regard.page.assets import one_file
from regard.verbs.views.files import json_text, npy_bytes
from regard.verbs.views.recorded_pass import Resource

MOST_BYTES = 48 << 20  # of arrays; of a long text the bulkiest are left out, and the page shows what it has
IN_A_NOTEBOOK = 6 << 20  # the same in a cell, which the notebook keeps
LAST = ("value/", "key/", "query/", "bias/", "mask/", "hidden/")  # left out first


def page_html(
    summary: dict, get: Callable[[str], Resource], paths: Sequence[str], *, room: int = MOST_BYTES
) -> str:
    """The page with these resources of a look inside, or, where they are too much, with those that fit."""
    documents: dict[str, bytes] = {}
    arrays: dict[str, bytes] = {}
    for path in by_importance([path for path in paths if path != "summary"]):
        found = get(path)
        if not isinstance(found, np.ndarray):
            documents[path] = json_text(found).encode("utf-8", "surrogatepass")
            continue
        content = npy_bytes(found)
        if len(content) <= room:
            arrays[path] = content
            room -= len(content)
    held = [path for path in summary["resources"] if path in documents or path in arrays]
    return one_file(
        {**summary, "resources": held},
        documents,
        arrays,
        title=f"{summary['text']} · {summary['model']['name']}",
    )


def in_iframe(page: str, text: str) -> str:
    """The page in a frame of its own, which can reach nothing outside; and, for who shows no frames, text."""
    source = html.escape(page, quote=True)
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" style="width: 100%; height: 720px; border: 0"'
        f' title="regard: what the model does with the text" srcdoc="{source}"></iframe>'
        f"<details><summary>as text</summary><pre>{html.escape(text)}</pre></details>"
    )


def by_importance(paths: list[str]) -> Iterator[str]:
    """The most telling first."""
    ranks = {
        path: next((len(LAST) - i for i, name in enumerate(LAST) if path.startswith(name)), 0)
        for path in paths
    }
    yield from sorted(paths, key=lambda path: ranks[path])
