"""onnxruntime-web, the engine of a page: its files, which npm fetches once into the user's cache.

It is too large for the package of regard. Each file is checked by its SHA-256 whenever it is read.
"""

import hashlib
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from regard.errors import UserError
from regard.exports.web_node import npm
from regard.user_cache import user_cache

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
SCRIPT, WASM = "onnxruntime-web.js", "onnxruntime-web.wasm"  # in an export
FILES = {  # name in an export -> name in the package, SHA-256
    SCRIPT: (
        "ort.wasm.bundle.min.mjs",
        "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    ),
    WASM: (
        "ort-wasm-simd-threaded.wasm",
        "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
    ),
}
FETCH_TIMEOUT = 600  # seconds
Reader = Callable[[str], bytes | None]  # a file of the package by its name


def runtime_files(place: Path | None = None) -> dict[str, bytes]:
    """The files by their name in an export.

    `place` has them: the package as npm installs it, its folder dist, or the archive of `npm pack`. Without
    it they come from the user's cache, or from npm, which then fills the cache.

    Raises:
        UserError: a file is missing or is another one, or npm cannot fetch the package.
    """
    if place is not None:
        return _checked(_reader(place), str(place))
    cache = user_cache(PACKAGE) / VERSION
    try:
        return _checked(_reader(cache), str(cache))
    except UserError:  # not yet fetched, or spoiled
        return _fetched(cache)


def _fetched(cache: Path) -> dict[str, bytes]:
    """The files from npm, stored in the cache."""
    wanted = f"{PACKAGE}@{VERSION}"
    by_hand = f"where there is a network: `npm pack {wanted}`; then give the file that it writes as --runtime"
    command = npm()
    if command is None:
        raise UserError(f"a web page needs {wanted}, and npm, which fetches it, is not here", by_hand)
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(  # noqa: S603 (npm, by its path)
                [*command, "pack", wanted, "--ignore-scripts", "--pack-destination", folder],
                capture_output=True,
                text=True,
                timeout=FETCH_TIMEOUT,
                check=False,
                cwd=folder,
            )
            why = next((line for line in done.stderr.splitlines() if " error " in line), "it failed")
        except subprocess.TimeoutExpired:
            why = f"no answer within {FETCH_TIMEOUT} seconds"
        archives = [*Path(folder).glob("*.tgz")]
        if not archives:
            raise UserError(f"npm cannot fetch {wanted}: {why[:200]}", by_hand)
        files = _checked(_reader(archives[0]), wanted)
    cache.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        inside = cache / FILES[name][0]
        with tempfile.NamedTemporaryFile(dir=cache, delete=False) as file:
            file.write(content)
        Path(file.name).replace(inside)
    return files


def _reader(place: Path) -> Reader:
    if place.is_file():
        return lambda name: _in_archive(place, name)
    folder = place / "dist" if (place / "dist").is_dir() else place
    return lambda name: path.read_bytes() if (path := folder / name).is_file() else None


def _in_archive(archive: Path, name: str) -> bytes | None:
    """A file of an npm archive, where each is below `package/`."""
    try:
        with tarfile.open(archive, "r:gz") as package:
            file = package.extractfile(str(PurePosixPath("package/dist", name)))
            return None if file is None else file.read()
    except KeyError:
        return None
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UserError(f"{archive} is not an archive of npm ({error})", _get_it()) from error


def _checked(read: Reader, place: str) -> dict[str, bytes]:
    """The files, each by its SHA-256."""
    files = {}
    for name, (inside, digest) in FILES.items():
        content = read(inside)
        if content is None:
            raise UserError(f"{place} has no {inside}", _get_it())
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise UserError(
                f"{inside} in {place} is not that of {PACKAGE} {VERSION}: its SHA-256 is {found}", _get_it()
            )
        files[name] = content
    return files


def _get_it() -> str:
    return f"`npm pack {PACKAGE}@{VERSION}` writes an archive that has it"
