"""A file whose lines have markup is named, where they are read as texts."""

import pytest

from regard.verbs.shared.lines import stream_lines


@pytest.mark.parametrize(
    ("name", "noted"),
    [("a.srt", "SRT"), ("a.csv.gz", "CSV"), ("a.md", "Markdown"), ("a.tsv", ""), ("a.txt", ""), ("a", "")],
)
def test_markup_in_lines_is_noted(capsys, tmp_path, name, noted):
    (tmp_path / name).write_text("1\n")
    assert list(stream_lines(tmp_path / name)) == ["1"]
    assert (f"with what is {noted} in it" in capsys.readouterr().err) == bool(noted)
    assert list(stream_lines(tmp_path / name, notes=False)) == ["1"]
    assert not capsys.readouterr().err
