"""A run may start from a trained model: its shape, its tokenisers, and its weights wherever they fit."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from regard.data.tokenizer import TokenizerPair
from regard.decoding.batches import decode_all
from regard.decoding.rules import LengthLimits
from regard.decoding.search import BeamSearch
from regard.errors import DataError, FolderError, RecipeError
from regard.models.adapters import adapters_of
from regard.verbs.shared.settings import recipe_from
from regard.verbs.train import train
from regard.verbs.training_run.initial_model import START, begin
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.model_folder import load_model
from regard.weights.tensors import model_tensors

CPU = torch.device("cpu")
SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}


def pairs(kind, **table):
    """A recipe of translation between made sequences."""
    corpus = {"synthetic": kind, "size": 60, "length": 5}
    data = {part: {**corpus, "split": part} for part in ("valid", "test")}
    return {
        "name": "small",
        "data": {"train": corpus, **data},
        "tokenizer": {"kind": "words"},
        "batches": {"batch_tokens": 200},
        "validation": {"metrics": ["exact_match"]},
        **table,
        "training": {"max_steps": 4, "save_every": 2, "validate_every": 2, **table.get("training", {})},
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The model folder of a translator of a few updates."""
    folder = tmp_path_factory.mktemp("trained")
    write(folder / "copy.toml", pairs("copy", model={**SMALL, "norm_position": "pre"}))
    return train(folder / "copy.toml", out=folder / "run", threads=1).model


def write(path, table):
    """A recipe's table as TOML."""

    def lines(table, where):
        for key, value in table.items():
            if not isinstance(value, dict):
                yield f"{key} = {json.dumps(value)}"
        for key, value in table.items():
            if isinstance(value, dict):
                yield f"[{where}{key}]"
                yield from lines(value, f"{where}{key}.")

    path.write_text("\n".join(lines(table, "")))
    return path


@pytest.fixture
def begun(tmp_path):
    """A function that begins a run of a recipe's table: the task, the model, and the printed messages."""

    def begin_it(table, name="run"):
        messages = []
        with RunFolder(tmp_path / name).lock() as run:
            task, model = begin(recipe_from(table, "", tmp_path, "recipe"), run, CPU, say=messages.append)
        return task, model, messages

    return begin_it


def test_a_translator_of_other_pairs_begins_as_the_one_that_was_trained(trained, begun):
    task, model, messages = begun(pairs("reverse", model={"init": str(trained), "dropout": 0.3}))
    loaded = load_model(trained)
    own, other = model_tensors(model), model_tensors(loaded.model)
    assert own.keys() == other.keys()
    assert all(torch.equal(own[name], other[name]) for name in own)
    assert model.config.norm_position == "pre"
    assert model.config.d_model == 16
    assert model.config.dropout == 0.3, "other settings of [model] apply"
    assert task.files["tokenizer.json"] == (trained / "tokenizer.json").read_bytes()
    count = f"{sum(tensor.numel() for tensor in own.values()):,}"
    assert any(line.startswith(f"start: {count} of {count} parameters") for line in messages)
    assert not any("fresh" in line or "not used" in line for line in messages)
    assert any(line.startswith("tokeniser: from") for line in messages)


def test_missing_weights_are_fresh_and_surplus_weights_are_not_used(trained, begun):
    model = {"init": str(trained), "num_encoder_layers": 2, "d_ff": 48}
    _, _, messages = begun(pairs("reverse", model=model))
    assert any(
        "d_ff = 48 instead of 32" in line and "num_encoder_layers = 2 instead of 1" in line
        for line in messages
    )
    assert "encoder: fresh (blocks.0.feed_forward, blocks.1: no weights fit)" in messages
    assert "decoder: fresh (blocks.0.feed_forward: no weights fit)" in messages
    [left] = [line for line in messages if line.startswith("not used")]
    assert "encoder.blocks.0.feed_forward" in left


def test_what_makes_most_weights_fresh_is_named_without_dropout(trained, begun, capsys):
    begun(pairs("reverse", model={"init": str(trained), "d_ff": 512, "dropout": 0.3}))
    assert "as [model] has d_ff: to train that model" in " ".join(capsys.readouterr().err.split())


def test_the_option_replaces_a_preset_and_a_path_in_the_recipe_is_relative_to_it(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "model")
    recipe = write(tmp_path / "a.toml", pairs("reverse", model={"preset": "base"}))
    by_option = train(recipe, init=tmp_path / "model", out=tmp_path / "a", threads=1)
    assert load_model(by_option.model).config.d_model == 16
    recipe = write(tmp_path / "b.toml", pairs("reverse", model={"init": "model"}))
    by_key = train(recipe, out=tmp_path / "b", threads=1)
    assert checkpoint_digest(RunFolder(by_option.run).latest()) == checkpoint_digest(
        RunFolder(by_key.run).latest()
    )


def test_a_run_resumes_without_the_pretrained_model(trained, tmp_path):
    recipe = write(tmp_path / "a.toml", pairs("reverse", training={"adapter": {"rank": 2}}))
    whole = train(recipe, init=trained, out=tmp_path / "whole", threads=1)
    shutil.copytree(trained, tmp_path / "model")
    train(recipe, init=tmp_path / "model", out=tmp_path / "run", threads=1)
    shutil.rmtree(tmp_path / "model")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000004")
    train(tmp_path / "run", resume=True, threads=1)
    assert checkpoint_digest(RunFolder(tmp_path / "run").latest()) == checkpoint_digest(
        RunFolder(whole.run).latest()
    )


def test_adapters_leave_a_plain_model_folder_and_print_the_trained_parameters(trained, tmp_path, capsys):
    recipe = write(tmp_path / "a.toml", pairs("reverse", training={"adapter": {"rank": 2}}))
    result = train(recipe, init=trained, out=tmp_path / "run", threads=1)
    before, after = load_model(trained), load_model(result.model)
    assert after.config == before.config
    assert not adapters_of(after.model)
    assert "from the weights of `small`" in (result.model / "README.md").read_text()
    old, new = model_tensors(before.model), model_tensors(after.model)
    assert {name for name in old if not torch.equal(old[name], new[name])} <= {
        name for name in old if "attention" in name and name.endswith(".weight")
    }
    total = sum(tensor.numel() for tensor in old.values())
    maps = 2 * (3 + 1) + 4  # of two self-attentions and a cross-attention
    assert f"model: {total:,} parameters, {maps * 2 * (16 + 16)} trained; cpu" in capsys.readouterr().err


def test_a_dry_run_starts_from_a_pretrained_model_and_keeps_nothing(trained, tmp_path, capsys):
    recipe = write(tmp_path / "a.toml", pairs("reverse"))
    result = train(recipe, init=trained, out=tmp_path / "run", dry_run=True, threads=1)
    assert result.metrics.keys() == {"loss", "exact_match"}
    assert "start: " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


IMAGES = {
    "name": "bars",
    "task": {"kind": "images"},
    "data": {"train": {"images": "bars.npz", "labels": "bars.npz"}, "valid_share": 0.2},
    "model": {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1, "patch_size": 4},
    "batches": {"batch_examples": 20},
    "training": {"max_steps": 2, "save_every": 2, "validate_every": 2},
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder with images of two classes, and the model folder of what was trained on them."""
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 255, (40, 8, 8), dtype=np.uint8)
    np.savez(folder / "bars.npz", images=pixels, labels=np.arange(40) % 2)
    names = {"data": {**IMAGES["data"], "class_names": ["lying", "standing"]}}
    return folder, train(write(folder / "a.toml", {**IMAGES, **names}), out=folder / "run", threads=1).model


def of_images(reader, tmp_path, *names):
    folder, model = reader
    shutil.copy(folder / "bars.npz", tmp_path)
    return {
        **IMAGES,
        "data": {**IMAGES["data"], "class_names": list(names)},
        "model": {"init": str(model)},
    }


def test_the_same_classes_keep_their_head(reader, begun, tmp_path):
    _, model, messages = begun(of_images(reader, tmp_path, "lying", "standing"))
    assert not any("fresh" in line for line in messages)
    assert torch.equal(model.head.weight, load_model(reader[1]).model.head.weight)


def test_other_classes_get_a_fresh_head_even_if_their_number_is_the_same(reader, begun, tmp_path):
    _, model, messages = begun(of_images(reader, tmp_path, "crow", "dove"))
    assert "head: fresh (the classes differ)" in messages
    assert not torch.equal(model.head.weight, load_model(reader[1]).model.head.weight)
    assert torch.equal(model.patches.projection.weight, load_model(reader[1]).model.patches.projection.weight)


def test_with_adapters_a_fresh_head_is_trained_completely(reader, begun, tmp_path):
    table = of_images(reader, tmp_path, "crow", "dove")
    table = {**table, "training": {**IMAGES["training"], "adapter": {"rank": 2}}}
    _, model, _ = begun(table)
    named = dict(model.named_parameters())
    whole = {name for name, p in named.items() if p.requires_grad and ".adapter." not in name}
    assert whole == {"head.weight", "head.bias"}


@pytest.mark.parametrize(
    ("table", "error", "message", "hint"),
    [
        ({"model": {"preset": "tiny", "init": "MODEL"}}, RecipeError, "both set", "leave out"),
        ({"model": {"init": 3}}, RecipeError, "model.init must be a path, not 3", "folder"),
        ({"model": {"init": "nowhere"}}, FolderError, "nowhere", ""),
        ({"model": {"init": "MODEL", "d_model": 32}}, FolderError, "none of its weights matches", r"[model]"),
        ({"model": {"init": "MODEL", "kind": "recurrent"}}, FolderError, "encoder_decoder", "model.kind"),
        ({"training": {"adapter": {}}}, RecipeError, "needs a pretrained model", "--init"),
        (
            {"model": {"init": "MODEL"}, "training": {"freeze": ["encoder.block"]}},
            RecipeError,
            "encoder.block",
            "encoder.blocks",
        ),
        (
            {"model": {"init": "MODEL"}, "training": {"adapter": {"rank": 99}}},
            Exception,
            "rank",
            "lower",
        ),
    ],
)
def test_models_that_cannot_be_started_from_are_refused(trained, begun, table, error, message, hint):
    if table.get("model", {}).get("init") == "MODEL":
        table = {**table, "model": {**table["model"], "init": str(trained)}}
    with pytest.raises(error) as caught:
        begun(pairs("reverse", **table))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_run_records_the_model_that_it_started_from(reader, begun, tmp_path):
    begun(of_images(reader, tmp_path, "crow", "dove"))
    kept = json.loads((tmp_path / "run" / START).read_text())
    assert kept["model"] == str(reader[1])
    assert kept["kind"] == "vision"
    assert kept["name"] == "bars"
    assert kept["fresh"] == ["head.bias", "head.weight"]


def test_text_that_the_vocabulary_does_not_know_is_refused(trained, begun, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"the {i}th line\tla {i}e ligne\n" for i in range(30)))
    corpus = {"file": "pairs.tsv", "format": "tsv", "source_field": "0", "target_field": "1"}
    table = {**pairs("copy", model={"init": str(trained)}), "data": {"train": corpus, "valid": corpus}}
    with pytest.raises(DataError, match=r"the vocabulary of .* does not fit: 100 %") as caught:
        begun(table)
    assert "--init" in caught.value.hint


@pytest.mark.nightly
def test_two_workers_start_from_one_pretrained_model(trained, tmp_path):
    recipe = write(tmp_path / "a.toml", pairs("reverse", training={"adapter": {"rank": 2}}))
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--init", str(trained)]
    command += ["--out", str(tmp_path / "run"), "--threads", "1", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("start: ") == 1
    assert load_model(tmp_path / "run").config == load_model(trained).config


NEW_WORDS = {"kind": "bpe", "extension": {"size": 20, "tokens": [">>cs<<"]}}


def texts(folder, **table):
    """A recipe of pairs in files, of a language whose letters the model `speaking` lacks."""
    (folder / "new.src").write_text(">>cs<< the cat sat\n>>cs<< a cat and a mouse\n" * 20)
    (folder / "new.tgt").write_text("kočka seděla\nkočka a myš\n" * 20)
    corpus = {"source": "new.src", "target": "new.tgt"}
    return pairs("copy", **{"data": {"train": corpus, "valid": corpus}, "tokenizer": NEW_WORDS, **table})


@pytest.fixture(scope="module")
def speaking(tmp_path_factory):
    """The model folder of a translator of texts, of a few updates."""
    folder = tmp_path_factory.mktemp("speaking")
    (folder / "old.src").write_text("the cat sat\na mouse and a cat\n" * 20)
    (folder / "old.tgt").write_text("die katze sitzt\neine maus und eine katze\n" * 20)
    corpus = {"source": "old.src", "target": "old.tgt"}
    table = pairs("copy", data={"train": corpus, "valid": corpus}, model=SMALL, tokenizer={"kind": "bpe"})
    return train(write(folder / "old.toml", table), out=folder / "run", threads=1).model


def test_an_extended_vocabulary_keeps_the_old_one(speaking, begun, tmp_path):
    task, model, messages = begun(texts(tmp_path, model={"init": str(speaking)}))
    before = load_model(speaking)
    old, new = before.tokenizers.source, TokenizerPair.of(task.files).source
    assert old.vocabulary().items() <= new.vocabulary().items()
    assert new.encode(">>cs<<") == [old.vocab_size]
    assert model.config.src_vocab_size == model.config.tgt_vocab_size == new.vocab_size > old.vocab_size
    assert model.config.output_bias
    assert not before.config.output_bias
    own = model_tensors(model)
    for name, tensor in model_tensors(before.model).items():
        assert torch.equal(own[name][: len(tensor)], tensor)
    count = new.vocab_size - old.vocab_size
    assert any(line.startswith(f"tokeniser: {count} new tokens") for line in messages)
    assert any(line.startswith("start: new rows of ") for line in messages)
    assert not any("fresh" in line for line in messages)


def test_an_extended_model_translates_old_text_as_before(speaking, begun, tmp_path):
    task, model, _ = begun(texts(tmp_path, model={"init": str(speaking)}))
    before, after = load_model(speaking), TokenizerPair.of(task.files)
    sources = before.tokenizers.source.encode_batch(["the cat sat", "a cat", "the mouse and a mouse"])
    limits = LengthLimits(ratio=1.0, offset=3)
    for search in (BeamSearch(size=1, limits=limits), BeamSearch(size=3, limits=limits)):
        found = [
            [each[0].ids for each in decode_all(search, one, sources)] for one in (before.model, model.eval())
        ]
        assert found[0] == found[1]
    assert after.source.encode_batch(["the cat sat", "a cat", "the mouse and a mouse"]) == sources


def test_an_extended_run_resumes_without_the_pretrained_model(speaking, tmp_path):
    recipe = write(tmp_path / "a.toml", texts(tmp_path))
    whole = train(recipe, init=speaking, out=tmp_path / "whole", threads=1)
    shutil.copytree(speaking, tmp_path / "model")
    train(recipe, init=tmp_path / "model", out=tmp_path / "run", threads=1)
    shutil.rmtree(tmp_path / "model")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000004")
    train(tmp_path / "run", resume=True, threads=1)
    assert checkpoint_digest(RunFolder(tmp_path / "run").latest()) == checkpoint_digest(
        RunFolder(whole.run).latest()
    )
    assert load_model(whole.model).tokenizers.source.added_tokens


def test_adapters_of_an_extended_model_train_the_rows_of_new_tokens(speaking, begun, tmp_path):
    table = texts(tmp_path, model={"init": str(speaking)}, training={"adapter": {"rank": 2}})
    _, model, _ = begun(table)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert "output.bias" in trained
    assert any(name.endswith("embedding.weight") for name in trained)


def test_an_extension_that_cannot_be_is_refused(speaking, begun, tmp_path):
    with pytest.raises(RecipeError, match=r"tokenizer\.extension needs a pretrained model"):
        begun(texts(tmp_path, model=SMALL), "a")
    init = {"model": {"init": str(speaking)}}
    with pytest.raises(RecipeError, match=r"training.freeze has .*embedding.weight"):
        begun(texts(tmp_path, **init, training={"freeze": ["encoder"]}), "b")
    with pytest.raises(RecipeError, match="output_bias = false"):
        begun(texts(tmp_path, model={"init": str(speaking), "output_bias": False}), "c")
    same = {"source": "old.txt", "target": "old.txt"}
    (tmp_path / "old.txt").write_text("the cat sat\n" * 20)
    with pytest.raises(DataError, match="there is no token to learn"):
        begun(texts(tmp_path, **init, data={"train": same, "valid": same}), "d")
    missing = {"kind": "bpe", "extension": {"size": 9, "keep": ["missing.txt"]}}
    with pytest.raises(DataError, match=r"no such file: .*missing.txt"):
        begun(texts(tmp_path, **init, tokenizer=missing), "e")


def test_a_convolution_that_the_pretrained_encoder_lacks_changes_nothing_at_first(
    encoder_folder, begun, tmp_path
):
    (tmp_path / "texts.txt").write_text("0 a good film\n1 a bad film\n" * 20)
    folder = encoder_folder("masked_language_model", ())
    table = {
        "name": "films",
        "task": {"kind": "classification"},
        "data": {"train": {"file": "texts.txt", "format": "labelled"}},
        "model": {"init": str(folder), "input_convolution": 3},
    }
    _, model, messages = begun(table)
    assert "encoder: fresh (convolution: no weights fit)" in messages
    ids, mask = torch.tensor([[4, 5, 6, 7]]), torch.ones(1, 1, 1, 4, dtype=torch.bool)
    with torch.no_grad():
        states = load_model(folder).model.eval().encoder(ids, mask)
        torch.testing.assert_close(model.eval().encoder(ids, mask), states, rtol=0, atol=0)
    assert model.encoder.convolution.depthwise.weight.requires_grad
    frozen = {**table, "training": {"freeze": ["encoder"]}}
    with pytest.raises(RecipeError, match=r"freeze has 'encoder\.convolution.*', which has no pretrained"):
        begun(frozen, "frozen")
    begun({**frozen, "model": {"init": str(folder)}}, "without")
