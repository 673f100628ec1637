"""Language models, from text on disk to a model folder that continues it; scores computed token by token."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORED
from regard.data.documents import Documents, DocumentSettings
from regard.data.token_stream import write_stream
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import ConfigError, DataError, FolderError, RecipeError
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.verbs.generate import generate
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import language_model
from regard.verbs.tasks.language_model import LanguageModel
from regard.verbs.tasks.text_score import TextScore, score_stream
from regard.verbs.train import train
from regard.weights.model_folder import load_model

RECIPE = """
name = "rhyme"
[task]
kind = "language_model"
block = 16
[data.train]
file = "rhyme.txt"
share = [0.0, 0.8]
[data.valid]
file = "rhyme.txt"
share = [0.8, 0.9]
[data.test]
file = "rhyme.txt"
share = [0.9, 1.0]
[tokenizer]
kind = "characters"
[model]
preset = "nano"
d_model = 32
d_ff = 64
num_layers = 1
[batches]
batch_tokens = 128
[training]
max_steps = 150
label_smoothing = 0.0
validate_every = 75
save_every = 75
[training.schedule]
learning_rate = 0.01
warmup_steps = 5
"""
RHYME = "abcd efgh\nijkl mnop\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rhyme.txt").write_text(RHYME * 100)
    (tmp_path / "poems.jsonl").write_text("".join(json.dumps({"text": RHYME}) + "\n" for _ in range(40)))
    (tmp_path / "rhyme.toml").write_text(RECIPE)
    return tmp_path


def prepared(folder, run="run", limit=None, say=lambda text: None, **sections) -> LanguageModel:
    table = {
        "name": "rhyme",
        "task": {"kind": "language_model", "block": 16, **sections.pop("task", {})},
        "data": {
            "train": {"file": "rhyme.txt", "share": [0.0, 0.8], **sections.pop("train", {})},
            "valid": {"file": "rhyme.txt", "share": [0.8, 1.0], **sections.pop("valid", {})},
        },
        "tokenizer": {"kind": "characters"},
        "model": {"preset": "nano", "d_model": 16, "d_ff": 16, **sections.pop("model", {})},
        **sections,
    }
    source = recipe_from(table, "", folder, "rhyme.toml")
    return language_model.prepare(source, folder / run, say=say, limit=limit)


def test_a_rhyme_is_learned_scored_and_continued(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = train("rhyme.toml", threads=1)
    assert set(result.metrics) == {"loss", "perplexity", "bits per character", "bits per byte"}
    assert result.metrics["loss"] < 0.3
    assert result.metrics["perplexity"] == pytest.approx(math.exp(result.metrics["loss"]))
    text = generate("abcd e", model=result.model, temperature=0.0, max_new_tokens=60)
    assert text == (RHYME * 9)[:66], "any length: the model reads at most a block at once"
    loaded = load_model(result.model)
    assert loaded.config.max_positions == 16, "as many as a block has"
    assert loaded.config.trained_length == 16
    assert loaded.generation["begin"] is False, "a single text has no special tokens"
    card = (result.model / "README.md").read_text()
    assert "regard generate --model" in card
    assert "|block:16|context:8|" in card


def test_the_trained_length_is_that_of_the_blocks_or_of_the_pretrained_model(folder):
    assert prepared(folder, model={"positions": "rotary"}).config.trained_length == 16
    before = prepared(folder, "other", model={"positions": "rotary"}).config.to_dict()
    for length, expected in ((64, 64), (8, 16), (None, 16)):
        init = {**before, "trained_length": length}
        started = prepared(folder, f"from-{length}", model={"positions": "rotary", "init": init})
        assert started.config.trained_length == expected


def scored(
    folder, kind: str, document: str, file: str, *, block: int, context: int, apart: bool, marks: bool
):
    """The score of a file by `score_stream`, the model, and the file's tokens."""
    documents = Documents(DocumentSettings(file=file, document=document), folder)
    tokenizer = train_tokenizer(documents, kind, TokenizerSettings(kind=kind, vocab_size=300))
    stream = write_stream(documents, tokenizer, folder / "stream", special_tokens=marks)
    model = build_model(
        DecoderOnlyConfig.from_table(
            {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_layers": 1, "max_positions": block},
            vocab_size=tokenizer.vocab_size,
        ),
        seed=0,
    ).eval()
    for parameter in model.parameters():
        parameter.data *= 20.0
    found = score_stream(model, stream, block=block, context=context, apart=apart, batch_tokens=50)
    return found, model, stream


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_a_text_that_fits_into_a_block_is_scored_as_in_one_pass(folder, kind):
    text = "Ärger, 東京\nthe end"
    (folder / "short.txt").write_text(text)
    found, model, stream = scored(
        folder, kind, "file", "short.txt", block=64, context=32, apart=False, marks=False
    )
    ids = torch.from_numpy(stream.ids.astype(np.int64))[None]
    nll = torch.nn.functional.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:], reduction="sum").item()
    assert found.nll == pytest.approx(nll, rel=1e-5)
    assert (found.tokens, found.characters, found.bytes) == (ids.size(1) - 1, len(text), len(text.encode()))
    metrics = found.metrics()
    assert list(metrics) == ["loss", "perplexity", "bits_per_character", "bits_per_byte"]
    assert metrics["loss"] == pytest.approx(nll / (ids.size(1) - 1), rel=1e-5)
    assert metrics["bits_per_character"] == pytest.approx(nll / math.log(2) / len(text), rel=1e-5)
    assert metrics["bits_per_byte"] == pytest.approx(nll / math.log(2) / len(text.encode()), rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))


@pytest.mark.parametrize(("block", "context"), [(7, 0), (7, 3), (8, 7), (64, 32)])
@pytest.mark.parametrize("apart", [True, False])
def test_each_token_is_predicted_once_from_the_tokens_of_its_window(folder, block, context, apart):
    """The same sums, one token at a time."""
    found, model, stream = scored(
        folder, "characters", "record", "poems.jsonl", block=block, context=context, apart=apart, marks=True
    )
    starts = stream.starts.tolist()
    sequences = list(itertools.pairwise(starts)) if apart else [(0, len(stream.ids))]
    nll, tokens = 0.0, 0
    cases: dict[int, list[tuple[list[int], int]]] = {}
    for first, last in sequences:
        done = first
        while done < last:
            end = min(last, first + block if done == first else done + block - context)
            labels, before = stream.read(np.arange(max(first, end - block), end))
            for place in range(done - max(first, end - block), len(labels)):
                cases.setdefault(place + 1, []).append((before[: place + 1].tolist(), int(labels[place])))
            done = end
    with torch.no_grad():
        for group in cases.values():
            logits = model(torch.tensor([ids for ids, _ in group]))[:, -1]
            labels = torch.tensor([label for _, label in group])
            nll += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
            tokens += len(group)
    assert tokens == found.tokens == stream.num_targets
    assert found.nll == pytest.approx(nll, rel=1e-4)


def test_intervals_resample_batches_and_few_batches_have_none():
    """Each other score grows with the loss, so its bounds are those of the loss."""
    rng = np.random.default_rng(1)
    batches = [(float(nats), 50) for nats in rng.normal(100.0, 10.0, 400)]
    score = TextScore(batches=batches, characters=40_000, bytes=50_000)
    found, metrics = score.intervals(), score.metrics()
    assert found.keys() == metrics.keys()
    low, high = found["loss"]
    error = 1.96 * 10.0 / math.sqrt(400) / 50
    assert (metrics["loss"] - low, high - metrics["loss"]) == pytest.approx((error, error), rel=0.3)
    assert found["perplexity"] == pytest.approx((math.exp(low), math.exp(high)))
    for name in ("bits_per_character", "bits_per_byte"):
        assert found[name] == pytest.approx([metrics[name] * end / metrics["loss"] for end in (low, high)])
    assert TextScore(batches=batches[:29], characters=1, bytes=1).intervals() == {}
    assert TextScore(batches=batches, characters=1, bytes=1, apart=True).intervals() == {}
    assert TextScore(batches=batches[:30], characters=1, bytes=1).intervals()


def test_more_context_is_no_worse_for_a_model_that_uses_it(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = train("rhyme.toml", threads=1)
    model, stream = load_model(result.model).model, language_model.TokenStream(result.run / "data" / "valid")
    losses = [
        score_stream(model, stream, block=16, context=context, apart=False, batch_tokens=512).metrics()[
            "loss"
        ]
        for context in (0, 8, 15)
    ]
    assert losses[0] > losses[1] >= losses[2] - 1e-3


def test_several_documents_have_special_tokens_and_may_be_kept_apart(folder):
    records = {"file": "poems.jsonl", "document": "record"}
    for apart in (True, False):
        task = prepared(
            folder, f"run-{apart}", task={"apart": apart}, train=dict(records), valid=dict(records)
        )
        assert json.loads(task.files["generation.json"])["begin"] is True
        batch = task.examples().batch(np.arange(len(task.examples())), 0)
        assert (batch.inputs[1] is not None) == apart
        assert (batch.inputs[0] == 2).any(), "a document begins with a special token"
        assert (batch.labels == 3).any(), "and ends with one"
        model = build_model(task.config, seed=0)
        loss = task.objective()(model, batch)
        assert loss.num_targets == int((batch.labels != IGNORED).sum())
        assert task.validate(model.eval())["loss"] == pytest.approx(math.log(21), rel=0.05)


def test_preparing_again_uses_the_cached_data_and_refuses_changed_text(folder):
    messages: list[str] = []
    prepared(folder, say=messages.append)
    assert messages == [
        "tokeniser: characters, 22 tokens",
        "training: 1 document, 1,600 characters, 1,600 tokens",
        "validation: 1 document, 400 characters, 400 tokens",
    ]
    before = (folder / "run" / "train" / "stream.json").stat().st_mtime_ns
    prepared(folder)
    assert (folder / "run" / "train" / "stream.json").stat().st_mtime_ns == before
    (folder / "rhyme.txt").write_text(RHYME * 99 + "other")
    with pytest.raises(FolderError, match="has changed since this run began"):
        prepared(folder)


def test_characters_that_are_not_in_the_training_text_are_counted(folder):
    (folder / "rhyme.txt").write_text(RHYME * 80 + "Zß" * 200)
    messages: list[str] = []
    prepared(folder, say=messages.append)
    assert messages[-1] == "validation: 1 document, 400 characters, 400 tokens; 400 tokens are unknown"


def test_a_dry_run_reads_everything_and_keeps_little(folder, monkeypatch):
    monkeypatch.setattr(language_model, "DRY_RUN_CHARACTERS", {"train": 100, "valid": 20})
    lines = '{"text": "some words"}\n' * 30
    (folder / "many.jsonl").write_text(lines)
    settings = {"file": "many.jsonl", "document": "record"}
    messages: list[str] = []
    prepared(folder, limit=100, train=dict(settings), say=messages.append)
    assert messages[1:] == [
        "training: 10 documents, 100 characters, 110 tokens",
        "validation: 1 document, 20 characters, 21 tokens; 14 tokens are unknown",
    ]
    (folder / "many.jsonl").write_text(lines + "{")
    settings["share"] = [0.0, 0.9]
    with pytest.raises(DataError, match=r"many\.jsonl:31"):
        prepared(folder, "other", limit=100, train=dict(settings))


@pytest.mark.parametrize(
    ("sections", "error", "named"),
    [
        ({"task": {"block": 1}}, RecipeError, "task.block must be 2 or more, not 1"),
        ({"model": {"max_positions": 9}}, RecipeError, "task.block = 16 is more than the 9 learned"),
        ({"task": {"blok": 3}}, RecipeError, "unknown key task.blok"),
        ({"train": {"share": [0.0, 0.81]}}, RecipeError, "data.train and data.valid have text in common"),
        ({"train": {"share": [0.5, 0.1]}}, RecipeError, "is not a range"),
        ({"train": {"share": [0.0, 0.001]}}, DataError, "less than a block of 16"),
        ({"train": {"file": "missing.txt"}}, DataError, "no such file"),
        ({"valid": {"document": "record"}}, DataError, r"rhyme\.txt:1: not JSON"),
        (
            {"validation": {"context": 16}},
            RecipeError,
            "validation.context = 16 must be less than task.block",
        ),
        ({"validation": {"context": -1}}, RecipeError, "validation.context must be 0 or more"),
        ({"validation": {"batch_tokens": 0}}, RecipeError, "validation.batch_tokens"),
        ({"tokenizer": {"dropout": 0.1}}, RecipeError, "tokenizer.dropout"),
        ({"tokenizer": {"kind": "wordpunct"}}, RecipeError, "does not keep spaces"),
        ({"tokenizer": {"joint": False}}, RecipeError, "joint = false has no effect"),
        ({"training": {"best_metric": "bleu"}}, RecipeError, "which validation does not measure"),
        ({"model": {"kind": "encoder_decoder"}}, RecipeError, "trains 'decoder_only' models only"),
        ({"model": {"num_heads": 3}}, ConfigError, "d_model"),
        ({"decoding": {"top_p": 0.0}}, RecipeError, "top_p"),
        ({"decoding": {"beam": 1}}, RecipeError, "unknown key decoding.beam"),
    ],
)
def test_mistakes_in_a_recipe_are_named(folder, sections, error, named):
    with pytest.raises(error, match=named) as caught:
        prepared(folder, **sections).examples()
    assert caught.value.hint or "top_p" in named
