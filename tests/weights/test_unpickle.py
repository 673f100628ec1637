"""The child process that reads pickles writes tensors, or says in one line what is wrong."""

import pickle
import runpy
import sys

import pytest
import torch

from regard.weights import unpickle
from regard.weights.tensors import read_tensors
from regard.weights.unpickle import main


def test_tensors_are_written_as_they_are_also_those_that_share_memory(tmp_path):
    whole = torch.arange(12.0).view(3, 4)
    found = {"whole": whole, "row": whole[1], "turned": whole.t(), 7: torch.tensor([1, 2])}
    torch.save(found, tmp_path / "in.bin")
    assert main(str(tmp_path / "in.bin"), str(tmp_path / "out.safetensors")) == 0
    written = read_tensors(tmp_path / "out.safetensors")
    assert sorted(written) == ["7", "row", "turned", "whole"]
    for name, tensor in found.items():
        assert torch.equal(written[str(name)], tensor)


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"a": torch.zeros(1), "b": 1.0}, torch.zeros(1)])
def test_more_than_a_dict_of_tensors_is_refused(tmp_path, capsys, content):
    torch.save(content, tmp_path / "in.bin")
    assert main(str(tmp_path / "in.bin"), str(tmp_path / "out.safetensors")) == 1
    assert capsys.readouterr().err == "it has more than a dict of tensors\n"
    assert not (tmp_path / "out.safetensors").exists()


class Hostile:
    """Code in a pickle."""

    def __reduce__(self):
        return (exec, ("open('ran', 'w')",))


@pytest.mark.parametrize("hostile", [True, False])
def test_a_pickle_of_anything_else_is_refused_in_one_short_line_and_not_run(
    tmp_path, monkeypatch, capsys, hostile
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.bin").write_bytes(pickle.dumps({"a": Hostile()}) if hostile else b"")
    assert main(str(tmp_path / "in.bin"), str(tmp_path / "out.safetensors")) == 1
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert 1 < len(written) <= 201
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.bin"]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"weights": {}}, "it has no 'model', so it is not a checkpoint of this toolkit"),
        ([1], "it has no 'model', so it is not a checkpoint of this toolkit"),
        ({"model": [1]}, "its 'model' is not a table"),
        ({"model": {}, "generator": [1]}, "its 'generator' is not a table"),
    ],
    ids=str,
)
def test_a_checkpoint_of_a_toolkit_has_its_tables(tmp_path, capsys, found, why):
    torch.save(found, tmp_path / "in.pt")
    assert main(str(tmp_path / "in.pt"), str(tmp_path / "out.safetensors"), "opennmt") == 1
    assert capsys.readouterr().err == f"{why}\n"
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize("layout", [[], ["joeynmt"]])
def test_the_child_is_a_program_with_its_files_as_arguments(tmp_path, monkeypatch, layout):
    weights = {"a": torch.ones(2)}
    torch.save({"model_state": weights} if layout else weights, tmp_path / "in.bin")
    files = [str(tmp_path / "in.bin"), str(tmp_path / "out.safetensors")]
    monkeypatch.setattr(sys, "argv", ["unpickle", *files, *layout])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(unpickle.__file__, run_name="__main__")
    assert ended.value.code == 0
    assert read_tensors(tmp_path / "out.safetensors").keys() == {"a"}
