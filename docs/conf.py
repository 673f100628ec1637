"""Sphinx's settings for the book: the pages of this repository as one folder of static HTML (`make book`)."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "book"), str(DOCS.parent)]

project = "regard"
copyright = "the authors of regard, Apache-2.0"
root_doc = "docs/index"
include_patterns = ["docs/**", "recipes/README.md", "benchmarks/README.md", "*.md"]
exclude_patterns = ["docs/book/**", "**/.*"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "accessible",  # this and the next are in docs/book/
    "commands",
    "error_table",
    "kernel",
    "mathml",
    "public_names",
    "recipe_keys",
    "source_links",
]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 4

autodoc_inherit_docstrings = False  # those of PyTorch's modules say how to write modules
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
napoleon_use_ivar = True
default_role = "literal"  # of docstrings, whose `code` is between single backticks

suppress_warnings = ["myst-nb.lexer"]  # pages that are not executed take the default, Python
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True  # the lines that a cell prints are one output
nb_code_prompt_show = "Show the answer"
nb_code_prompt_hide = "Hide the answer"

html_theme = "furo"
html_title = "regard"
html_static_path = ["book/static"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_sphinx = False
