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
