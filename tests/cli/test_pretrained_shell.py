"""Commands on pretrained models in a shell, with folders by `regard convert`."""

import json
import os

import pytest

from tests.warm_process import run_python

NIGHTLY = pytest.mark.nightly  # each command is a process of its own

NARROW = {"n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 64, "bos_token_id": 2, "eos_token_id": 2}
MARKS = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
T5 = {"d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 24, "num_layers": 1, **MARKS}
SIDES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "init_std": 0.5,
}
OPUS = {**SIDES, **MARKS, "forced_eos_token_id": 2}
BART = {**SIDES, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
TASKS = {"summarization": {"prefix": "summarize: "}, "translation_en_to_de": {"prefix": "to German: "}}
CLASSES = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
SENTENCES = ["a good film", "the film is bad .", "paris is the capital of france ."]
CLASSIFY = """
name = "films"
[task]
kind = "classification"
[data]
label_names = { 0 = "bad", 1 = "good" }
valid_share = 0.2
train = { file = "films.txt", format = "labelled" }
test = { file = "films.txt", format = "labelled" }
[batches]
batch_tokens = 80
[training]
max_steps = 6
validate_every = 3
save_every = 3
schedule = { kind = "constant", learning_rate = 0.01 }
"""
GO_ON = """
name = "lines"
task = { kind = "language_model", block = 16 }
[data]
train = { file = "lines.txt", share = [0.0, 0.8] }
valid = { file = "lines.txt", share = [0.8, 1.0] }
[batches]
batch_tokens = 64
[training]
max_steps = 4
validate_every = 2
save_every = 2
adapter = { rank = 2 }
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory, their_folder, their_encoder, sentence_encoder):
    """Runs `regard`, beside the folders that it has converted; a command that fails fails the test.

    A folder is converted by the first command that names it.
    """
    place = tmp_path_factory.mktemp("shell")

    def regard(*arguments: str, fails: bool = False) -> str:
        for name in folders.keys() & {*arguments}:
            if arguments[0] != "convert" and not (place / name).exists():
                assert regard("convert", str(folders[name][0]), "--out", name).splitlines() == [name]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = run_python(["-m", "regard", *arguments], place, environment)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    folders = {
        "gpt2": their_folder("GPT2LMHeadModel", "GPT2Config", NARROW, pieces="bytes"),
        "bert": their_encoder("BertForMaskedLM"),
        "classes": their_encoder("BertForSequenceClassification", **CLASSES),
        "sentences": sentence_encoder,
        "t5": their_folder("T5ForConditionalGeneration", "T5Config", T5, pieces="bytes"),
        "marian": their_folder("MarianMTModel", "MarianConfig", OPUS, pieces="bytes", more=[">>fra<<"]),
        "bart": their_folder("BartForConditionalGeneration", "BartConfig", BART, pieces="bytes"),
    }
    config = folders["t5"][0] / "config.json"
    table = {**json.loads(config.read_text("utf-8")), "task_specific_params": TASKS}
    config.write_text(json.dumps(table), "utf-8")
    (place / "sentences.txt").write_text("".join(f"{line}\n" for line in SENTENCES), "utf-8")
    (place / "films.txt").write_text("1 a good film\n0 a bad film\n1 the good\n0 the bad .\n" * 5, "utf-8")
    (place / "lines.txt").write_text("a film of paris\nis the capital of france\n" * 20, "utf-8")
    (place / "films.toml").write_text(CLASSIFY, "utf-8")
    (place / "lines.toml").write_text(GO_ON, "utf-8")
    return regard


@NIGHTLY
def test_generate(shell):
    asked = "In a world where AI has become commonplace,"
    command = ["generate", asked, "--model", "gpt2", "--no-repeat-ngram", "2", "--max-new-tokens", "12"]
    said = shell(*command)
    assert said.startswith(asked)
    assert shell(*command) == said
    found = json.loads(shell(*command, "--json"))
    assert found["prompt"] == asked


def test_classify(shell):
    lines = [line.split("\t") for line in shell("classify", SENTENCES[0], "--model", "classes").splitlines()]
    assert [line[0] for line in lines] in (["good"], ["bad"])
    reported = shell("classify", SENTENCES[0], "--model", "sentences", fails=True)
    assert "it has no trained head" in reported


@NIGHTLY
def test_embed(shell):
    records = shell("embed", "--model", "sentences", "--input", "sentences.txt", "--json").splitlines()
    vectors = [json.loads(record)["vector"] for record in records]
    assert [len(vector) for vector in vectors] == [16, 16, 16]
    assert sum(number**2 for number in vectors[0]) == pytest.approx(1, abs=1e-4)
    ranked = shell(
        "embed", "--model", "sentences", "--input", "sentences.txt", "--similar-to", SENTENCES[2]
    ).splitlines()
    assert ranked[0].split("\t") == ["1.0000", "3", SENTENCES[2]]


@NIGHTLY
def test_fill(shell):
    lines = shell("fill", "Paris is the [MASK] of France.", "--model", "bert", "--top", "3").splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["1", "1"]] * 3


@NIGHTLY
def test_summarize(shell):
    short = ["--max-new-tokens", "6", "--json"]
    for model in ("t5", "bart"):
        found = json.loads(shell("summarize", SENTENCES[1], "--model", model, *short))
        assert len(found["hypotheses"][0]["tokens"]) <= 6
    with_prefix = shell("summarize", SENTENCES[1], "--model", "t5", "--prefix", "summarize: ", *short)
    assert with_prefix == shell("summarize", SENTENCES[1], "--model", "t5", *short)


def test_translate(shell):
    short = ["--max-new-tokens", "6", "--json"]
    assert json.loads(shell("translate", SENTENCES[0], "--model", "t5", *short))["source"] == SENTENCES[0]
    french = json.loads(shell("translate", SENTENCES[0], "--model", "marian", "--prefix", ">>fra<<", *short))
    assert french["hypotheses"][0]["token_log_probs"]
    assert "is not a language" in shell(
        "translate", SENTENCES[0], "--model", "marian", "--prefix", ">>deu<<", fails=True
    )


@NIGHTLY
def test_train_classes_from_it_and_evaluate(shell):
    shell("train", "films.toml", "--init", "bert", "--out", "films", "--threads", "1")
    assert "accuracy" in shell("evaluate", "--model", "films")
    assert shell("classify", SENTENCES[0], "--model", "films").split("\t")[0] in ("good", "bad")


@NIGHTLY
def test_train_low_rank_parts_of_it(shell):
    shell("train", "lines.toml", "--init", "gpt2", "--out", "lines", "--threads", "1")
    assert shell("generate", "a film", "--model", "lines", "--max-new-tokens", "4").startswith("a film")
