"""Build hook of hatchling: puts prebuilt kernels into a wheel, if there is a C compiler on Linux.

Without one, or if a target cannot be compiled, the wheel lacks it and says so while it is built; regard then
compiles its kernels where it runs. An editable installation gets none, so that changed C files are compiled.
`REGARD_WHEEL=pure` builds a wheel without kernels, for all platforms.
"""

import os
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "src"))

from regard.errors import RegardError
from regard.fast.native.compiler import compile_portable_library, require_compiler
from regard.fast.native.prebuilt import TARGETS

CHOICES = (None, "pure")


class PrebuiltKernels(BuildHookInterface):
    """Compiles the library of each target of this machine type."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to the wheel, and its platform to the wheel's name."""
        asked = os.environ.get("REGARD_WHEEL") or None
        if asked not in CHOICES:
            raise ValueError(f"REGARD_WHEEL is {asked!r}; `pure` or nothing has a meaning")
        if asked == "pure" or version == "editable" or sys.platform != "linux":
            return
        self._folder = tempfile.TemporaryDirectory()
        made = self._compiled(Path(self._folder.name))
        for file in made:
            build_data["force_include"][str(file)] = f"regard/fast/native/prebuilt/{file.name}"
        if made:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled files."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _compiled(self, folder: Path) -> list[Path]:
        made = []
        for target in TARGETS:
            if target.machine != platform.machine():
                continue
            place = folder / target.name / target.file
            place.parent.mkdir()
            try:
                compile_portable_library(require_compiler(), target.flags, place)
            except RegardError as error:
                self.app.display_warning(f"no kernels for {target.name}: {error.message}")
            else:
                made.append(place)
        return made
