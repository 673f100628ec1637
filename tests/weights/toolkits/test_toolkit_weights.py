"""Weights of toolkits: what is left out, split or renamed, and what contradicts the settings."""

import json
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import FolderError
from regard.weights.toolkits import comet, eole, fairseq, joeynmt, marian, opennmt, sockeye
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import checkpoint_file, with_row
from tests.weights.toolkits.marian_files import write_model
from tests.weights.toolkits.peers import FIXTURES
from tests.weights.toolkits.read_configs import EOLE, SOCKEYE

pytest.importorskip("yaml")
HERE = Path("folder")


def refused(message, call, *given, **named):
    with pytest.raises(FolderError, match=message) as caught:
        call(*given, **named)
    assert caught.value.hint


def test_a_row_more_has_one_value():
    assert with_row(torch.ones(1, 2)).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert with_row(torch.ones(2, dtype=torch.float64), -5.0).tolist() == [1.0, 1.0, -5.0]
    assert with_row(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("version", [2.0, 3.0])
@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_pre_norm_of_fairseq_before_version_3_has_no_norm_after_the_stack(version, normed, side):
    tensors = {f"{side}.version": torch.tensor([version])}
    if normed:
        tensors[f"{side}.layer_norm.weight"] = torch.ones(2)
    if version == 2.0 and normed:
        refused(rf"{side}\.version = \[2\.0\] is not supported", fairseq._tensors, tensors, HERE)
    else:
        assert list(fairseq._tensors(tensors, HERE)) == [name for name in tensors if "version" not in name]


def test_names_of_fairseq_before_0_10_are_those_of_later_ones():
    rows = torch.arange(12.0).view(6, 2)
    old = {
        "encoder.layers.0.self_attn.in_proj_weight": rows,
        "decoder.layers.1.encoder_attn.in_proj_bias": rows[:, 0],
        "encoder.layers.0.layer_norms.0.weight": rows[0],
        "encoder.layers.0.layer_norms.1.weight": rows[1],
        "decoder.layers.0.layer_norms.1.bias": rows[2],
        "decoder.layers.0.layer_norms.2.bias": rows[3],
        "decoder.embed_out": rows[4],
        "decoder.embed_positions._float_tensor": rows[5],
        "encoder.embed_positions.weights": rows[5],
        "encoder.layers.3.fc1_weight": rows,
        "encoder.embed_positions.weight": rows[1],
    }
    found = fairseq._tensors(old, HERE)
    expected = {
        "encoder.layers.0.self_attn_layer_norm.weight": rows[0],
        "encoder.layers.0.final_layer_norm.weight": rows[1],
        "decoder.layers.0.encoder_attn_layer_norm.bias": rows[2],
        "decoder.layers.0.final_layer_norm.bias": rows[3],
        "decoder.output_projection.weight": rows[4],
        "encoder.embed_positions.weight": rows[1],
    }
    for number, part in enumerate("qkv"):
        some = slice(2 * number, 2 * number + 2)
        expected[f"encoder.layers.0.self_attn.{part}_proj.weight"] = rows[some]
        expected[f"decoder.layers.1.encoder_attn.{part}_proj.bias"] = rows[some, 0]
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
        assert found[name].is_contiguous()


def test_a_factor_of_one_and_tied_tensors_of_eole_are_left_out():
    one = {"encoder.transformer_layers.0.layer_scalar": torch.ones(1), "other": torch.ones(2)}
    assert list(eole._weights(dict(one), EOLE, HERE, False)) == ["other"]
    for factor in (torch.zeros(1), torch.tensor([1.0, 0.5])):
        changed = {**one, "encoder.transformer_layers.0.layer_scalar": factor}
        refused("layer_scalar' is not 1", eole._weights, changed, EOLE, HERE, False)
    matrices = {"src_emb.embeddings.weight": torch.ones(2, 2), "tgt_emb.embeddings.weight": torch.ones(2, 2)}
    for tied, left in (("all", 1), ("embeddings", 1), ("target", 2), ("none", 2)):
        assert len(eole._weights(dict(matrices), replace(EOLE, tied=tied), HERE, False)) == left


def test_rotated_features_of_eole_are_in_halves_not_in_pairs():
    """Features 2i and 2i + 1 of each head go to i and i + d_head / 2; those of values stay."""
    config = replace(EOLE, d_model=8, num_heads=2, d_ff=8)
    rows = torch.arange(8.0)
    names = {part: f"a.self_attn.linear_{part}.bias" for part in ("query", "keys", "values")}
    found = eole._weights({name: rows.clone() for name in names.values()}, config, HERE, True)
    for part in ("query", "keys"):
        assert found[names[part]].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert torch.equal(found[names["values"]], rows)
    kept = eole._weights({name: rows.clone() for name in names.values()}, config, HERE, False)
    assert all(torch.equal(tensor, rows) for tensor in kept.values())


def test_an_attention_of_eole_has_biases_of_inputs_or_of_all():
    final = {"encoder.transformer_layers.0.self_attn.final_linear.bias": torch.zeros(2)}
    model = Settings({"encoder": {}, "decoder": {}}, "config.json", "model.")
    refused("add_final_linear_bias", eole._stack, model, "encoder", {"positions": "none"}, final)
    assert eole._stack(model, "decoder", {"positions": "none"}, final)["attention_bias"] == "none"


def test_keys_and_values_of_sockeye_stand_head_by_head():
    """In `ff_in` after all queries, in `ff_kv` alone: key and value of a head, then those of the next."""
    config = replace(SOCKEYE, d_model=4, num_heads=2, positions="learned", tied="none")
    queries, pairs = torch.arange(4.0), 10 + torch.arange(8.0)
    columns = [torch.cat((queries, pairs))[:, None].expand(-1, 4), pairs[:, None].expand(-1, 4)]
    tensors = {"a.ff_in.weight": columns[0], "b.ff_kv.weight": columns[1], "c.ff_out.weight": torch.ones(2)}
    found = sockeye._weights(tensors, config, HERE)
    assert {name: each[..., 0].tolist() for name, each in found.items() if name[0] != "c"} == {
        "a.ff_in.q.weight": [0, 1, 2, 3],
        "a.ff_in.k.weight": [10, 11, 14, 15],
        "a.ff_in.v.weight": [12, 13, 16, 17],
        "b.ff_kv.k.weight": [10, 11, 14, 15],
        "b.ff_kv.v.weight": [12, 13, 16, 17],
    }
    assert "c.ff_out.weight" in found
    for count in (11, 13, 7, 9):
        wrong = {"a.ff_in.weight": torch.ones(count, 4)}
        refused(rf"'a\.ff_in\.weight' is \[{count}, 4\]", sockeye._weights, wrong, config, HERE)
    assert "a.ff_in.bias" in sockeye._weights({"a.ff_in.bias": torch.ones(3)}, config, HERE)


def test_the_greatest_length_of_sockeye_is_the_mean_and_two_deviations():
    assert sockeye._data(Settings({}, "config")) == 2.0
    assert sockeye._data(Settings({"max_seq_len_source": 3, "eop_id": None}, "config")) == 2.0
    for mean, deviation, ratio in ((1.2, 0.25, 1.7), (0.5, 0.0, 0.5), (1.0001, 0.0, 1.0)):
        table = {"length_ratio_mean": mean, "length_ratio_std": deviation}
        assert sockeye._data(Settings({"data_statistics": table}, "config")) == ratio
    for name in ("num_source_factors", "num_target_factors"):
        sockeye._data(Settings({name: 1}, "config"))
        refused(name, sockeye._data, Settings({name: 2}, "config"))
    refused("a_new_one", sockeye._data, Settings({"a_new_one": 1}, "config"))


@pytest.mark.parametrize(
    "pieces",
    [
        {"<pad>": 0, "<unk>": 1, "<s>": 2, "a": 3, "</s>": 4},
        {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "a": 5},
        {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "a": 3},
        {"<unk>": 0, "<pad>": 1, "<s>": 2, "</s>": 3},
        {},
    ],
    ids=str,
)
def test_a_vocabulary_of_sockeye_begins_with_its_special_tokens_and_has_no_gaps(tmp_path, pieces):
    (tmp_path / "vocab.src.0.json").write_text(json.dumps(pieces), "utf-8")
    refused(
        r"vocab\.src\.0\.json lacks <pad> <unk> <s> </s>", sockeye._tokenizer, tmp_path, "src", len(pieces)
    )


def test_a_vocabulary_of_sockeye_has_the_size_of_the_model(tmp_path):
    pieces = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "a": 4}
    (tmp_path / "vocab.trg.0.json").write_text(json.dumps(pieces), "utf-8")
    found = sockeye._tokenizer(tmp_path, "trg", 5)
    assert (found.pad_id, found.unk_id, found.bos_id, found.eos_id, found.vocab_size) == (0, 1, 2, 3, 5)
    assert found.encode("a b") == [4, 1]
    refused("has 5 pieces, the model 6 embeddings", sockeye._tokenizer, tmp_path, "trg", 6)


@pytest.mark.parametrize("missing", ["opt", "vocab"])
@pytest.mark.parametrize("value", [None, []])
def test_a_checkpoint_of_opennmt_has_settings_and_vocabularies(tmp_path, monkeypatch, missing, value):
    saved = {"opt": {}, "vocab": {}, missing: value}
    (tmp_path / "a_step_1.pt").touch()
    monkeypatch.setattr(opennmt, "read_pickle", lambda path, layout: ({}, saved))
    refused("has no opt and vocab", opennmt.OpenNMT().read, tmp_path, trust_pickle=True)


def test_the_transforms_of_opennmt_have_the_settings_of_all_corpora():
    opt = {"transforms": ["bpe"], "src_subword_model": "a", "tgt_vocab_threshold": 3, "src_subword_type": "x"}
    own = {"src_subword_model": "a", "tgt_vocab_threshold": 3}
    assert opennmt._transforms(opt) == {"transforms": ["bpe"], "transforms_configs": {"bpe": own}}
    assert opennmt._transforms({"transforms": None}) == {"transforms": [], "transforms_configs": {}}


def test_the_sizes_of_marian_s_vocabularies_are_those_of_its_embeddings():
    def check(sizes, rows=(12, 13), **table):
        tensors = {} if table.get("output-omit-bias") else {"decoder_ff_logit_out_b": torch.ones(2)}
        marian._refuse_contradictions(Settings({"dim-vocabs": sizes, **table}, "m"), tensors, rows)

    for sizes in (None, [], [12, 13], [0, 13], [12, 0], [0, 0], ["12", "13"]):
        check(sizes)
    for sizes in ([13, 12], [12, 12], [12], [13], [12, 13, 13]):
        refused("dim-vocabs", check, sizes)
    check([], **{"output-omit-bias": True})
    bias = {"decoder_ff_logit_out_b": torch.ones(2)}
    for omitted, tensors in ((True, bias), (False, {})):
        settings = Settings({"output-omit-bias": omitted}, "m")
        refused("output-omit-bias", marian._refuse_contradictions, settings, tensors, (2, 2))


def test_the_model_of_marian_is_the_only_one_or_has_the_usual_name(tmp_path):
    (tmp_path / "one.npz").touch()
    assert marian._model_file(tmp_path) == tmp_path / "one.npz"
    (tmp_path / "model.npz").touch()
    assert marian._model_file(tmp_path) == tmp_path / "model.npz"
    assert marian._model_file(tmp_path / "one.npz") == tmp_path / "one.npz"
    (tmp_path / "model.npz").unlink()
    for name in "abcdef":
        (tmp_path / f"{name}.npz").touch()
    refused(r"has 7 models: a\.npz, b\.npz, c\.npz, d\.npz, e\.npz$", marian._model_file, tmp_path)
    refused(r"has 7 checkpoints: a\.npz, b\.npz, c\.npz, d\.npz, e\.npz$", checkpoint_file, tmp_path, "*.npz")


def test_the_settings_of_marian_s_decoder_are_beside_the_model(tmp_path):
    def read():
        return marian._decoder_settings(tmp_path, tmp_path / "model.npz")

    assert read() == {}
    for name in ("config.yml", "decoder.yml", "model.npz.decoder.yml"):  # the last comes first
        (tmp_path / name).write_text(f"name: {name}\n", "utf-8")
        assert read() == {"name": name}


def test_an_archive_without_settings_is_no_model_of_marian(tmp_path):
    np.savez(tmp_path / "model.npz", Wemb=np.ones((2, 2), np.float32))
    refused(r"model\.npz has no special:model\.yml", load_toolkit, toolkit_of(tmp_path), tmp_path)
    write_model(tmp_path, {"tied-embeddings-all": False})
    with np.load(tmp_path / "model.npz") as found:
        arrays = dict(found)
    del arrays["decoder_Wemb"]
    np.savez(tmp_path / "model.npz", **arrays)
    refused("no matrix 'decoder_Wemb'", load_toolkit, toolkit_of(tmp_path), tmp_path)


def test_a_stack_of_joeynmt_must_be_a_transformer_by_its_settings():
    side = {"hidden_size": 8, "num_heads": 2, "ff_size": 12, "num_layers": 1, "layer_norm": "pre"}
    settings = Settings({**side, "embeddings": {}}, "c", "model.encoder.")
    refused(r"model\.encoder\.type is missing", joeynmt._side, settings, "encoder", {})
    settings = Settings({**side, "type": "transformer", "embeddings": {}}, "c", "model.encoder.")
    assert joeynmt._side(settings, "encoder", {})["norm_position"] == "pre"
    settings = Settings({**side, "type": "transformer", "layer_norm": "post", "embeddings": {}}, "c")
    assert joeynmt._side(settings, "encoder", {})["norm_position"] == "post"
    settings = Settings({**side, "type": "transformer", "layer_norm": None, "embeddings": {}}, "c")
    assert joeynmt._side(settings, "decoder", {})["norm_position"] == "post", "as JoeyNMT's decoder is"
    settings = Settings({**side, "type": "transformer", "layer_norm": "x", "embeddings": {}}, "c")
    refused("layer_norm = 'x'", joeynmt._side, settings, "decoder", {})


@pytest.mark.parametrize(
    "table", [{"max_output_length": 0}, {"repetition_penalty": 0}, {"no_repeat_ngram_size": 0}], ids=str
)
def test_a_limit_of_joeynmt_that_is_nothing_is_none(table):
    def read(found):
        return joeynmt._decoding(Settings(found, "c", "testing."))

    assert read({"beam_size": 4, **table}) == read({"beam_size": 4})


@pytest.mark.parametrize(("word", "layer"), [("mix", None), ("0", 0), (1, 1), ("2", 2)])
def test_a_layer_of_comet_is_the_embeddings_or_one_of_the_encoder(word, layer):
    assert comet._layer(Settings({"layer": word}, "c"), "layer", 2) == layer
    assert comet._layer(Settings({}, "c"), "layer", 2) is None
    for wrong in ("3", "-1", "last", "1.0"):
        refused("layer", comet._layer, Settings({"layer": wrong}, "c"), "layer", 2)


def test_a_checkpoint_of_fairseq_names_a_tokenizer_that_regard_does_not_apply(tmp_path, in_this_process):
    folder = shutil.copytree(FIXTURES / "fairseq" / "shared", tmp_path / "model")
    found = load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    assert not any("tokenizer" in each for each in found.unused_decoding)
    with torch.serialization.safe_globals([Namespace]):
        state = torch.load(folder / "model.pt", weights_only=True)
    for name, named in (("moses", True), ("space", False), (None, False)):
        state["args"].tokenizer = name
        torch.save(state, folder / "model.pt")
        unused = load_toolkit(toolkit_of(folder), folder, trust_pickle=True).unused_decoding
        assert any(each.startswith("tokenizer = moses") for each in unused) is named
