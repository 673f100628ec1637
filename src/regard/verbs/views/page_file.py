"""A look as one HTML file that needs no server and no network."""

import html
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from regard.page.assets import HeldModel, one_file
from regard.verbs.views.files import json_text, npy_bytes
from regard.verbs.views.recorded_pass import Resource

MAX_ARRAY_BYTES = 48 << 20  # the page shows only the arrays that fit
MAX_NOTEBOOK_BYTES = 6 << 20  # the same in a cell, which is saved with the notebook
LOW_PRIORITY = ("value/", "key/", "query/", "bias/", "mask/", "hidden/")  # left out first


def page_html(
    summary: dict,
    get: Callable[[str], Resource],
    paths: Sequence[str],
    *,
    max_bytes: int = MAX_ARRAY_BYTES,
    model: HeldModel | None = None,
) -> str:
    """The page with these resources of a look; arrays beyond `max_bytes` in total are left out.

    With a `model` the page looks at other texts too.
    """
    documents: dict[str, bytes] = {}
    arrays: dict[str, bytes] = {}
    for path in by_importance([path for path in paths if path != "summary"]):
        found = get(path)
        if not isinstance(found, np.ndarray):
            documents[path] = json_text(found).encode("utf-8", "surrogatepass")
            continue
        content = npy_bytes(found)
        if len(content) <= max_bytes:
            arrays[path] = content
            max_bytes -= len(content)
    included = [path for path in summary["resources"] if path in documents or path in arrays]
    return one_file(
        {**summary, "resources": included},
        documents,
        arrays,
        title=f"{summary['text']} · {summary['model']['name']}",
        model=model,
    )


def in_iframe(page: str, text: str) -> str:
    """The page in a sandboxed iframe, followed by the text for viewers that show no frames."""
    source = html.escape(page, quote=True)
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" style="width: 100%; height: 720px; border: 0"'
        f' title="regard: what the model does with the text" srcdoc="{source}"></iframe>'
        f"<details><summary>as text</summary><pre>{html.escape(text)}</pre></details>"
    )


def by_importance(paths: list[str]) -> Iterator[str]:
    """The paths in the order of importance: those of LOW_PRIORITY last."""
    ranks = {
        path: next((len(LOW_PRIORITY) - i for i, name in enumerate(LOW_PRIORITY) if path.startswith(name)), 0)
        for path in paths
    }
    yield from sorted(paths, key=lambda path: ranks[path])
