"""The doctor looks at everything and stumbles over nothing."""

import torch

from regard.data.catalogue import data_sets
from regard.verbs.box import box_model
from regard.verbs.doctor import doctor


def test_the_doctor_reports_versions_processors_disk_data_and_the_box(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = {finding.topic: finding for finding in doctor()}
    assert f"torch {torch.__version__}" in found["packages"].found
    assert f"{torch.get_num_threads()} threads" in found["CPU"].found
    assert "free" in found["disk, here"].found
    assert all(found[f"data {name}"].found == "not here" for name in data_sets())
    assert str(box_model()) in found["model in the box"].found
    assert "--model en-de" in found["model in the box"].found
    assert " MB" in found["model in the box"].found
