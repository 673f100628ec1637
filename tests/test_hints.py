"""Hints of errors name what may have been meant, and nothing else."""

import json
from pathlib import Path

import pytest

from regard.data.files import locate
from regard.errors import ConfigError, DataError, FolderError, did_you_mean
from regard.models.adapters import add_lora
from regard.models.build import build_model
from regard.models.encoder_only import EncoderOnlyConfig
from regard.verbs.convert import convert
from regard.verbs.training_run.run_summary import epochs_of
from regard.verbs.translate import Translator


@pytest.mark.parametrize(
    ("name", "meant"), [("opt", None), ("gtp2", "gpt2"), ("brt", "bert"), ("gpt", "gpt2"), ("lama", "llama")]
)
def test_a_short_name_of_another_family_is_no_misspelling(name, meant):
    hint = did_you_mean(name, ["bert", "gpt2", "llama"])
    assert hint == ("known: bert, gpt2, llama" if meant is None else f"did you mean {meant!r}?")


@pytest.mark.parametrize(("name", "meant"), [("multi30", "multi30k"), ("mutli30k", "multi30k")])
def test_a_misspelled_data_set_is_one(name, meant, tmp_path):
    with pytest.raises(DataError, match="no such file") as caught:
        locate(f"{name}:train.en", tmp_path)
    assert f"'{meant}:train.en'" in caught.value.hint


def test_the_hint_of_an_unknown_target_of_adapters_lists_the_targets():
    config = EncoderOnlyConfig(vocab_size=20, head="none", d_model=8, num_heads=2, d_ff=16, num_layers=1)
    with pytest.raises(ConfigError, match="'c_attn'") as caught:
        add_lora(build_model(config, seed=0), targets=["c_attn"])
    words = caught.value.hint.partition("possible: ")[2].split(", ")
    assert {"query_key_value", "output", "outer"} & {*words}
    for word in words[: words.index("and whole names")]:
        assert add_lora(build_model(config, seed=0), targets=[word])


def test_a_folder_of_ctranslate2_is_named_as_one(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"add_source_bos": False}))
    (tmp_path / "model.bin").touch()
    (tmp_path / "shared_vocabulary.json").write_text("[]")
    for use in (Translator, lambda path: convert(path, out=Path(path) / "out")):
        with pytest.raises(FolderError, match="is a model of CTranslate2"):
            use(tmp_path)


@pytest.mark.parametrize(("count", "shown"), [(1.0, "1 epoch"), (0.97, "1 epoch"), (1.5, "1.5 epochs")])
def test_one_epoch_is_in_the_singular(count, shown):
    assert epochs_of(count) == shown
