"""A pipe is read line by line, as soon as they come, by the same rules as a file."""

import gzip
import os

import pytest

from regard.errors import DataError
from regard.verbs.shared.lines import arriving, count_of, lines_of


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)


def test_lines_come_out_as_soon_as_they_are_there(pipe):
    reader, writer = pipe
    chunks = arriving(reader)
    for line in ("one", "", "three"):
        os.write(writer, f"{line}\n".encode())
        assert next(chunks) == [line]
    os.write(writer, b"four\nfive\nsi")
    assert next(chunks) == ["four", "five"]
    os.write(writer, b"x")
    os.close(writer)
    assert next(chunks) == ["six"]
    assert list(chunks) == []


def test_a_pipe_gives_the_lines_that_a_file_gives(pipe, tmp_path):
    reader, writer = pipe
    content = "\ufeffone\r\n\n two\u2028\x0c\n\ufeffthree\rthree\n ünïcødé".encode()
    (tmp_path / "file").write_bytes(content)
    os.write(writer, content)
    os.close(writer)
    assert [line for chunk in arriving(reader) for line in chunk] == lines_of(tmp_path / "file")


def test_lines_before_one_that_is_not_utf8_are_answered_before_its_error(pipe):
    reader, writer = pipe
    os.write(writer, b"good\nalso\nb\xe4d\nnever\n")
    os.close(writer)
    chunks = arriving(reader)
    assert next(chunks) == ["good", "also"]
    with pytest.raises(DataError, match="standard input:3: not UTF-8"):
        next(chunks)


def test_many_lines_come_in_chunks(tmp_path):
    (tmp_path / "many").write_text("".join(f"{i}\n" for i in range(5000)))
    descriptor = os.open(tmp_path / "many", os.O_RDONLY)
    chunks = list(arriving(descriptor))
    os.close(descriptor)
    assert max(map(len, chunks)) == 1024
    assert [line for chunk in chunks for line in chunk] == [str(i) for i in range(5000)]


def test_an_empty_pipe_has_no_line(pipe):
    reader, writer = pipe
    os.close(writer)
    assert list(arriving(reader)) == []


@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"a\nb", b"\n\n", b"\xef\xbb\xbf", b"\xff\n\xff"])
@pytest.mark.parametrize("zipped", [False, True])
def test_lines_are_counted_as_they_are_read(tmp_path, text, zipped):
    file = tmp_path / "file"
    file.write_bytes(gzip.compress(text) if zipped else text)
    if b"\xff" in text:
        assert count_of(file) == 2
    else:
        assert count_of(file) == len(lines_of(file))
