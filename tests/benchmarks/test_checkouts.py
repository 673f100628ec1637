"""What `benchmarks.checkouts` compares two checkouts by."""

import contextlib

import pytest

from benchmarks import checkouts


@pytest.mark.parametrize("name", checkouts.MEASURED)
def test_each_work_can_be_done(monkeypatch, name):
    monkeypatch.setattr(checkouts, "TOKENS", 3)
    monkeypatch.setattr(checkouts, "ROWS", 2)
    with contextlib.ExitStack() as stack:
        work, units = (
            checkouts.training_step(checkouts.FORMS[name], stack)
            if name in checkouts.FORMS
            else checkouts.text(*checkouts.TEXTS[name])
        )
        found = work()
    assert units > 0
    assert found is None or len(found[0][0].ids) == 3


def test_a_folder_that_is_no_checkout_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", ["checkouts", str(tmp_path)])
    with pytest.raises(SystemExit):
        checkouts.main()
    assert "is no checkout of regard" in capsys.readouterr().err
