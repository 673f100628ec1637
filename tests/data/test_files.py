"""Reading files: where lines end, what is not text, what is damaged, what is missing."""

import bz2
import codecs
import gzip
import lzma
import os
import tracemalloc

import pytest

from regard.data import files
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.documents import read_text
from regard.data.files import STDIN, line_text, locate, read_lines
from regard.errors import DataError
from regard.verbs.proposals.input_files import input_files

LETTERS = b"a few words\n" * 50


def test_a_line_ends_at_a_line_feed_and_nowhere_else(tmp_path):
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    (tmp_path / "text").write_bytes((text + "\nsecond\n").encode())
    assert list(read_lines(tmp_path / "text")) == [text, "second"]


def test_a_byte_order_mark_is_dropped_at_the_start_and_kept_elsewhere(tmp_path):
    bom = codecs.BOM_UTF8
    (tmp_path / "text").write_bytes(bom + b"a\n" + bom + b"b\n")
    assert list(read_lines(tmp_path / "text")) == ["a", "\ufeffb"]


def test_the_ends_of_windows_lines_are_dropped(tmp_path):
    (tmp_path / "text").write_bytes(b"a\r\nb\rc\r\nd")
    assert list(read_lines(tmp_path / "text")) == ["a", "b\rc", "d"]


def test_a_last_line_needs_no_line_feed(tmp_path):
    for ending in (b"", b"\n"):
        (tmp_path / "text").write_bytes(b"a\n\nb" + ending)
        assert list(read_lines(tmp_path / "text")) == ["a", "", "b"]


def test_a_gzipped_file_is_known_by_its_bytes_not_its_name(tmp_path):
    for name in ("text", "text.gz"):
        (tmp_path / name).write_bytes(gzip.compress("ä\nb\n".encode()))
        assert list(read_lines(tmp_path / name)) == ["ä", "b"]
    (tmp_path / "text.gz").write_bytes(b"not compressed\n")
    assert list(read_lines(tmp_path / "text.gz")) == ["not compressed"]


def test_a_wrong_byte_is_named_by_file_line_and_place(tmp_path):
    (tmp_path / "text").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(DataError, match=r"text:2: not UTF-8 \(byte 0xef at byte 3\)") as caught:
        list(read_lines(tmp_path / "text"))
    assert "iconv" in caught.value.hint


WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32"]


@pytest.mark.parametrize("encoding", WIDE)
def test_utf_16_is_reported_as_utf_16(tmp_path, encoding):
    (tmp_path / "a").write_bytes("ein Haus\nzwei Häuser\n".encode(encoding))
    for read in (lambda: list(read_lines(tmp_path / "a")), lambda: read_text(tmp_path / "a")):
        with pytest.raises(DataError, match=r"a:? ?(UTF-16|UTF-16LE|UTF-16BE|UTF-32), not UTF-8") as caught:
            read()
        assert caught.value.hint.startswith("convert the file: iconv -f UTF-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_corpus_and_nobody_waits_for_it(tmp_path):
    """A pipe can be read once, but a corpus is read for its digest, its tokenisers and its tokens."""
    os.mkfifo(tmp_path / "text.src")
    (tmp_path / "text.tgt").write_text("a\n")
    with pytest.raises(DataError, match=r"text\.src is a pipe or a device, but data are read more than once"):
        open_corpus(CorpusSettings(source="text.src", target="text.tgt"), LinePolicy(), tmp_path)
    assert locate("text.src", tmp_path, once=True) == tmp_path / "text.src"


@pytest.mark.parametrize("damage", ["cut", "cut in its header", "changed"])
def test_a_damaged_gzip_file_is_an_error_and_not_an_end(tmp_path, damage):
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(5000)))
    broken = {"cut": whole[:-20], "cut in its header": whole[:5], "changed": whole[:-8] + b"\0" * 8}[damage]
    (tmp_path / "text.gz").write_bytes(broken)
    with pytest.raises(DataError, match=r"text.gz:\d+: the compressed file is cut short or damaged"):
        list(read_lines(tmp_path / "text.gz"))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"a" * (64 << 20)))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"text\.gz:1: a line of more than 1 MiB"):
        list(read_lines(tmp_path / "text.gz"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_missing_file_is_answered_with_the_nearest_name(tmp_path):
    (tmp_path / "train.en").write_text("a\n")
    with pytest.raises(DataError, match="no such file") as caught:
        open_corpus(CorpusSettings(source="trian.en", target="train.de"), LinePolicy(), tmp_path)
    assert caught.value.hint == "did you mean 'train.en'?"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match="Is a directory"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(
    ("name", "head", "kind", "command"),
    [
        ("a.en.xz", lzma.compress(LETTERS), "xz", "xz -dc"),
        ("a.en.bz2", bz2.compress(LETTERS), "bzip2", "bzip2 -dc"),
        ("a.en.zst", b"\x28\xb5\x2f\xfd\x00", "Zstandard", "zstd -dc"),
        ("a.en.zip", b"PK\x03\x04\xff\x00", "ZIP", "unzip -p"),
        ("a.en", lzma.compress(LETTERS), "xz", "xz -dc"),
    ],
)
def test_a_file_of_another_compression_is_named_with_how_to_recompress_it(
    tmp_path, name, head, kind, command
):
    path = tmp_path / name
    path.write_bytes(head)
    with pytest.raises(DataError, match=f"compressed by {kind}") as caught:
        list(read_lines(path))
    assert caught.value.hint == f"gzip is read: {command} {path} | gzip > {tmp_path / 'a.en.gz'}"
    with pytest.raises(DataError) as by_new:
        input_files([path])
    assert (by_new.value.message, by_new.value.hint) == (caught.value.message, caught.value.hint)


@pytest.mark.parametrize("name", ["a letter.DOCX", "table.xlsx", "a.odt", "book.epub"])
def test_a_document_of_several_files_is_not_to_be_unpacked(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04\xff\x00")
    with pytest.raises(DataError, match=f"a {path.suffix[1:].lower()} document, which is not read") as caught:
        list(read_lines(path))
    assert caught.value.hint == "save it as text in UTF-8"


def test_names_with_spaces_are_quoted_in_the_command_that_recompresses_a_file(tmp_path):
    path = tmp_path / "a file.xz"
    path.write_bytes(lzma.compress(LETTERS))
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert f"xz -dc '{path}' | gzip > '{tmp_path / 'a file.gz'}'" in caught.value.hint


def test_an_address_in_a_store_keeps_its_slashes_in_the_command():
    with pytest.raises(DataError) as caught:
        line_text(lzma.compress(LETTERS), "s3://bucket/a.en.xz", 1)
    assert caught.value.hint == "gzip is read: xz -dc s3://bucket/a.en.xz | gzip > s3://bucket/a.en.gz"


def test_a_compressed_standard_input_is_unpacked_in_the_pipe():
    with pytest.raises(DataError, match="standard input: compressed by xz") as caught:
        line_text(lzma.compress(LETTERS), STDIN, 1)
    assert caught.value.hint == "unpack it in the pipe: xz -dc FILE | regard ..."
