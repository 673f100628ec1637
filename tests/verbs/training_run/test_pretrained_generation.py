"""A language model that starts from a pretrained one keeps what that has beside its weights."""

import pytest

from regard.verbs.train import train
from regard.verbs.training_run.initial_model import START
from regard.weights.model_folder import load_model
from regard.weights.strict_json import read_json
from tests.conftest import CHAT
from tests.verbs.training_run.test_initial_model import write

OWN = {"begin": False, "may_end": True, "sample": True, "top_k": 20, "top_p": 0.8, "end_ids": (0,)}
LINE = "To be, or not to be: that is the question."


@pytest.fixture
def tuned(decoder_folder, tmp_path):
    """A function that trains a model of other decoding defaults further: what its folder holds then."""

    def train_it(own=OWN, document="file", **sections):
        (tmp_path / "text.txt").write_text(f"{LINE}\n" * 60)
        (tmp_path / "texts.jsonl").write_text(f'{{"text": "{LINE}"}}\n' * 60)
        data = {"file": "text.txt" if document == "file" else "texts.jsonl", "document": document}
        table = {
            "name": "tuned",
            "task": {"kind": "language_model", "block": 8},
            "data": {"train": {**data, "share": [0.0, 0.8]}, "valid": {**data, "share": [0.8, 1.0]}},
            "model": {"init": str(decoder_folder(decoding=own, chat=CHAT))},
            "batches": {"batch_tokens": 64},
            "training": {"max_steps": 2, "validate_every": 1, "save_every": 1},
            **sections,
        }
        recipe = write(tmp_path / "tuned.toml", table)
        return load_model(train(recipe, out=tmp_path / "run", threads=1).model)

    return train_it


def test_the_chat_template_and_the_decoding_defaults_stay(tuned):
    loaded = tuned()
    assert loaded.chat_template is not None
    assert loaded.chat_template.template == CHAT
    kept = {name: loaded.generation[name] for name in OWN}
    assert kept == {**OWN, "end_ids": [0]}
    start = read_json(loaded.path.parent / START)
    assert start["generation"]["top_k"] == 20, "a run that resumes finds them"


def test_the_keys_of_the_recipe_come_first(tuned):
    found = tuned(decoding={"beam_size": 4, "may_end": False}).generation
    assert (found["beam_size"], found["may_end"], found["top_k"]) == (4, False, 0)
    assert "sample" not in found, "a beam resets what is for sampling"


def test_texts_that_have_ends_teach_them(tuned):
    found = tuned(document="record").generation
    assert found["begin"] is True
    assert found.get("may_end") is not False
    assert found["top_k"] == 20


def test_a_model_that_begins_texts_still_does(tuned):
    """Then the training text begins and ends as the pretrained model's texts did."""
    loaded = tuned(own={})
    assert loaded.generation["begin"] is True
    description = read_json(loaded.path.parent / "data" / "train" / "stream.json")
    assert description["marks"] is True


@pytest.mark.parametrize("changes", [{"activation": "relu"}, {"d_ff": 512}])
def test_a_model_of_other_sizes_is_warned_about(tuned, decoder_folder, caplog, capsys, changes):
    tuned(model={"init": str(decoder_folder()), **changes})
    printed = " ".join(capsys.readouterr().err.split()) + caplog.text
    assert ("leave out all settings of [model] but init" in printed) is ("d_ff" in changes)
