"""The catalogue: a data set is found and verified, or an error has a hint."""

import contextlib
import gzip
import hashlib
import http.client
import http.server
import io
import os
import threading
import zipfile
from pathlib import Path

import pytest

from regard.data import catalogue
from regard.data.catalogue import (
    DataFile,
    DataSet,
    check,
    convert_original,
    data_set,
    data_sets,
    find_file,
    get,
)
from regard.data.download import download
from regard.errors import DataError, RunError

REAL = os.environ.get("REGARD_DATA")
needs_data = pytest.mark.skipif(not REAL, reason="REGARD_DATA names no folder of data sets")

HELLO = b"hello\nworld\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A catalogue of one small data set, an empty cache and an empty REGARD_DATA."""
    record = DataSet(
        name="toy",
        title="Toy",
        task="test",
        licence="none",
        repository="owner/toys",
        commit="c0ffee",
        note="made by hand",
        files=(
            DataFile(name="plain.txt", size=12, sha256=sha256(HELLO), path="a/plain"),
            DataFile(name="packed.txt.gz", size=32, sha256=sha256(HELLO), path="a/plain"),
            DataFile(name="unpacked.txt", size=12, sha256=sha256(HELLO), path="a/original.gz"),
            DataFile(
                name="recoded.txt",
                size=3,
                sha256=sha256("é\n".encode()),
                path="a/latin",
                conversion="latin-1",
            ),
        ),
    )
    monkeypatch.setattr(catalogue, "data_sets", lambda: {"toy": record})
    monkeypatch.setattr(catalogue, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "mine"))
    return record


@pytest.fixture
def server(tmp_path):
    """A web server on this machine: .url, .root (what it serves), .asked (the Range of each request)."""
    root = tmp_path / "served"
    toys = root / "owner" / "toys" / "c0ffee" / "a"
    toys.mkdir(parents=True)
    (toys / "plain").write_bytes(HELLO)
    (toys / "original.gz").write_bytes(gzip.compress(HELLO))
    (toys / "latin").write_bytes("é\n".encode("latin-1"))
    with serving(root) as running:
        yield running


@contextlib.contextmanager
def serving(root: Path):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers.get("Range")
            asked.append(wanted)
            file = root / self.path.lstrip("/")
            if not file.is_file():
                self.send_error(404)
                return
            content = file.read_bytes()
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            if wanted and start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if wanted else 200)
            if self.server.missing is not None:
                self.send_header("Content-Length", str(len(content) - start + self.server.missing))
            self.end_headers()
            self.wfile.write(content[start:])

        def log_message(self, *message):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.root, httpd.asked, httpd.missing = root, asked, 0
        httpd.url = f"http://127.0.0.1:{httpd.server_port}"
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield httpd
        httpd.shutdown()
        thread.join()


# The records


def test_every_record_is_complete():
    assert len(data_sets()) == 14
    for record in data_sets().values():
        assert record.title
        assert record.licence
        assert len(record.commit) == 40
        assert record.files
        assert all(len(file.sha256) == 64 and file.size > 0 for file in record.files)
        assert record.note or all(file.path for file in record.files), (
            "a file that cannot be downloaded needs a note"
        )


@needs_data
@pytest.mark.parametrize("name", list(data_sets()))
def test_the_data_sets_on_this_machine_are_whole(name):
    found = check(name)
    assert {found.state for found in found} == {"ok"}
    assert all(found.path and found.path.stat().st_size == found.file.size for found in found)


def test_without_a_folder_the_cache_of_the_user_is_searched(monkeypatch, tmp_path):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert catalogue.data_folders() == [tmp_path / "regard" / "data"]


# Finding


def put(folder: Path, name: str, content: bytes) -> Path:
    (folder / "toy").mkdir(parents=True, exist_ok=True)
    (folder / "toy" / name).write_bytes(content)
    return folder / "toy" / name


def test_a_file_is_found_in_the_folder_of_the_user_before_the_cache(toy, tmp_path):
    cached = put(tmp_path / "cache", "plain.txt", HELLO)
    assert find_file("toy:plain.txt") == cached
    assert find_file("toy:plain.txt") != put(tmp_path / "mine", "plain.txt", b"damaged")
    assert find_file("toy:plain.txt") == cached
    mine = put(tmp_path / "mine", "plain.txt", HELLO)
    assert find_file("toy:plain.txt") == mine


def test_who_compressed_a_file_does_not_matter(toy, tmp_path):
    path = put(tmp_path / "mine", "packed.txt.gz", gzip.compress(HELLO, compresslevel=1, mtime=99))
    assert find_file("toy:packed.txt.gz") == path


@pytest.mark.parametrize(
    "content",
    [gzip.compress(HELLO)[:-3], gzip.compress(HELLO)[:5], b"", HELLO, gzip.compress(b"else")],
    ids=["truncated", "header only", "empty", "not gzip", "other content"],
)
def test_a_damaged_file_is_refused(toy, tmp_path, content):
    put(tmp_path / "mine", "packed.txt.gz", content)
    with pytest.raises(DataError, match="SHA-256") as caught:
        find_file("toy:packed.txt.gz")
    assert "regard data get toy" in caught.value.hint
    assert [found.state for found in check("toy")] == ["missing", "damaged", "missing", "missing"]


@pytest.mark.parametrize(
    ("spec", "expected_hint"),
    [
        ("toy:plain.txt", "regard data get toy"),
        ("toy:plian.txt", "'plain.txt'"),
        ("tay:plain.txt", "'toy'"),
        ("plain.txt", "NAME:FILE"),
    ],
)
def test_what_is_not_found_has_a_hint(toy, spec, expected_hint):
    with pytest.raises(DataError) as caught:
        find_file(spec)
    assert expected_hint in caught.value.hint


def test_a_path_is_no_name_of_the_catalogue(toy):
    assert catalogue.is_spec("toy:plain.txt")
    assert not catalogue.is_spec("toy:")
    assert not catalogue.is_spec("C:\\data\\train.en")
    assert not catalogue.is_spec("data/train.en")


# Getting


def test_what_is_got_is_whole_and_is_not_fetched_again(toy, server):
    messages = []
    paths = get("toy", lambda path, done, total: messages.append((path, done, total)), server=server.url)
    assert [path.name for path in paths] == [file.name for file in toy.files]
    assert {found.state for found in check("toy")} == {"ok"}
    assert ("a/plain", 12, 12) in messages
    assert len(server.asked) == 3, "each of their files once"
    get("toy", server=server.url)
    assert len(server.asked) == 3
    assert {path.name for path in paths[0].parent.iterdir()} == {file.name for file in toy.files}


def test_the_size_of_a_download_is_known_at_its_end_if_the_server_names_none(server, tmp_path):
    server.missing, seen = None, []
    path = f"{server.url}/owner/toys/c0ffee/a/plain"
    download(path, tmp_path / "part", lambda done, total: seen.append((done, total)))
    assert seen == [(len(HELLO), None), (len(HELLO), len(HELLO))]


def test_a_download_resumes_where_it_was_cut_off(toy, server, tmp_path):
    part = tmp_path / "part"
    server.missing = 100
    with pytest.raises(DataError, match="interrupted after 12 of 112 bytes"):
        download(f"{server.url}/owner/toys/c0ffee/a/plain", part, lambda done, total: None)
    server.missing = 0
    part.write_bytes(HELLO[:5])
    download(f"{server.url}/owner/toys/c0ffee/a/plain", part, lambda done, total: None)
    assert part.read_bytes() == HELLO
    assert server.asked[-1] == "bytes=5-"
    download(f"{server.url}/owner/toys/c0ffee/a/plain", part, lambda done, total: None)
    assert part.read_bytes() == HELLO


def test_what_is_not_ours_is_not_kept(toy, server, tmp_path):
    (server.root / "owner/toys/c0ffee/a/plain").write_bytes(b"something else")
    with pytest.raises(DataError, match="SHA-256 differs") as caught:
        get("toy", server=server.url)
    assert "nothing was kept" in caught.value.hint
    assert not any(path.is_file() for path in (tmp_path / "cache").rglob("*"))


def test_a_file_that_cannot_be_had_is_named_with_the_reason(toy, server, monkeypatch):
    unavailable = DataFile(name="drawn.txt", size=1, sha256=sha256(b""))
    record = DataSet(**{**vars(toy), "files": (*toy.files, unavailable)})
    monkeypatch.setattr(catalogue, "data_sets", lambda: {"toy": record})
    with pytest.raises(DataError, match=r"drawn\.txt of toy cannot be downloaded: made by hand") as caught:
        get("toy", server=server.url)
    assert "REGARD_DATA" in caught.value.hint
    assert [found.state for found in check("toy")] == ["ok"] * 4 + ["missing"], "the rest was got"


def test_without_a_network_there_is_a_hint(toy):
    with pytest.raises(DataError, match="cannot be reached") as caught:
        get("toy", server="http://127.0.0.1:9")
    assert "REGARD_DATA" in caught.value.hint


def test_a_connection_that_breaks_is_not_taken_for_a_missing_network(toy, server, tmp_path, monkeypatch):
    blocks = iter([HELLO[:5]])

    def read(self, count):
        for block in blocks:
            return block
        raise TimeoutError("timed out")

    monkeypatch.setattr(http.client.HTTPResponse, "read", read)
    with pytest.raises(DataError, match="interrupted after 5 of 12 bytes: timed out") as caught:
        download(f"{server.url}/owner/toys/c0ffee/a/plain", tmp_path / "part", lambda done, total: None)
    assert "resume" in caught.value.hint
    assert (tmp_path / "part").read_bytes() == HELLO[:5]


def test_an_error_of_the_display_is_raised_as_it_is(toy, server, tmp_path):
    def broken(done, total):
        raise BrokenPipeError("the terminal has gone")

    with pytest.raises(BrokenPipeError):
        download(f"{server.url}/owner/toys/c0ffee/a/plain", tmp_path / "part", broken)


def test_an_error_of_the_server_is_reported(toy, server):
    with pytest.raises(DataError, match="404"):
        download(f"{server.url}/nothing", server.root / "nothing", lambda done, total: None)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_not_taken_for_a_missing_network(server, tmp_path):
    full = tmp_path / "part"
    full.symlink_to("/dev/full")
    with pytest.raises(RunError, match=f"cannot write {full}: No space left on device"):
        download(f"{server.url}/owner/toys/c0ffee/a/plain", full, lambda done, total: None)


@needs_data
@pytest.mark.nightly
def test_the_split_of_tatoeba_is_made_from_its_authors_archive():
    """The archive is rebuilt from our files; order matters only within a split."""

    def lines(split, language):
        path = find_file(f"tatoeba_en_de:{split}.{language}{'.gz' if split == 'train' else ''}")
        content = gzip.decompress(path.read_bytes()) if split == "train" else path.read_bytes()
        return content.decode().split("\n")[:-1]

    pairs = [
        pair
        for split in ("test", "train", "valid")
        for pair in zip(lines(split, "en"), lines(split, "de"), strict=True)
    ]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as folder:
        folder.writestr("deu.txt", "".join(f"{english}\t{german}\n" for english, german in pairs))
        folder.writestr("_about.txt", find_file("tatoeba_en_de:ABOUT.upstream.txt").read_bytes())
    for file in data_set("tatoeba_en_de").files:
        assert sha256(convert_original(file, archive.getvalue())) == file.sha256


def test_an_archive_that_is_none_is_refused():
    file = data_set("tatoeba_en_de").file("test.de")
    with pytest.raises(DataError, match="the source has changed"):
        convert_original(file, b"no archive")
