"""A Sphinx extension: figures of executed cells are SVG that suits a light and a dark page."""

import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "build" / "book-kernel"
SETTINGS = """\
c = get_config()
c.IPKernelApp.log_level = 40
c.InlineBackend.figure_formats = {"svg"}
c.InlineBackend.rc = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.framealpha": 0.0,
    "savefig.facecolor": "none",
    "svg.hashsalt": "regard",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), "808080"),
    **dict.fromkeys(("xtick.color", "ytick.color"), "808080"),
}
"""


def setup(app: Any) -> dict[str, bool]:
    """Have IPython read the settings in each kernel that this process starts."""
    profile = FOLDER / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(SETTINGS, "utf-8")
    os.environ["IPYTHONDIR"] = str(FOLDER)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
