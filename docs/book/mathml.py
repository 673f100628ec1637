"""A Sphinx extension: formulas become MathML, which browsers draw without a script, a font or a network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def inline(translator: Any, node: nodes.Element) -> None:
    """Write a formula of a sentence."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed(translator: Any, node: nodes.Element) -> None:
    """Write a formula on lines of its own."""
    formula = convert(node.astext(), display="block")
    translator.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer; `html_math_renderer` selects it."""
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
