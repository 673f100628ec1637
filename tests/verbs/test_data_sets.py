"""Data sets are listed, shown and checked, whether they are on this machine or not."""

import pytest

from regard.errors import DataError
from regard.verbs.data import data_check, data_list, data_show


def test_every_data_set_can_be_shown():
    for record in data_list():
        assert data_show(record.name) is record
    with pytest.raises(DataError, match="no data set is called 'multi30'"):
        data_show("multi30")


def test_missing_files_are_reported_as_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_check() == {}
    assert {found.state for found in data_check("scan")["scan"]} == {"missing"}
    file = data_show("scan").files[0].name
    (tmp_path / "scan").mkdir()
    (tmp_path / "scan" / file).write_bytes(b"something else")
    assert list(data_check()) == ["scan"]
    assert "damaged" in {found.state for found in data_check("scan")["scan"]}


@pytest.mark.parametrize(
    ("name", "problem"), [("absent", "does not exist"), ("a.txt", "is a file"), ("", "")]
)
def test_a_folder_of_data_sets_that_is_none_is_named(tmp_path, monkeypatch, capsys, name, problem):
    (tmp_path / "a.txt").touch()
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / name))
    assert data_list()
    warning = f"warning: REGARD_DATA: {tmp_path / name} {problem}\n" if problem else ""
    assert capsys.readouterr().err == warning
