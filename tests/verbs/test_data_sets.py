"""The verbs of data sets answer for what is here and for what is not."""

import pytest

from regard.errors import DataError
from regard.verbs.data import data_check, data_list, data_show


def test_every_data_set_can_be_shown():
    for record in data_list():
        assert data_show(record.name) is record
    with pytest.raises(DataError, match="no data set is called 'multi30'"):
        data_show("multi30")


def test_what_is_not_here_is_missing_and_all_that_is_here_is_none(tmp_path, monkeypatch):
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
