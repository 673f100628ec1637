"""A BART that was trained there, on targets that begin with <s>, writes and scores the same texts here."""

import pytest
import torch

from regard.verbs.convert import convert
from regard.verbs.evaluate import evaluate
from regard.verbs.score import score
from regard.verbs.translate import Translator
from regard.weights.model_folder import load_model

MARKS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
SIZES = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "forced_eos_token_id": 2,
}
SOURCES = ["a film about paris", "the cat sat on the mat"]
TARGETS = ["ein film von paris", "die katze auf der matte"]


@pytest.fixture(scope="module")
def trained(their_folder):
    """The folder, the model and the tokeniser of transformers, which has learned the two pairs by heart."""
    from transformers import AutoTokenizer

    folder, theirs, _ = their_folder(
        "BartForConditionalGeneration", "BartConfig", {**SIZES, **MARKS}, pieces="bytes"
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, model_type="bart")
    batch = tokenizer(SOURCES, text_target=TARGETS, return_tensors="pt", padding=True)
    batch["labels"][batch["labels"] == 1] = -100
    assert batch["labels"][0, 0] == 0  # <s>
    optimizer = torch.optim.Adam(theirs.parameters(), lr=3e-3)
    for _ in range(160):
        optimizer.zero_grad()
        theirs(**batch).loss.backward()
        optimizer.step()
    theirs.save_pretrained(folder)
    return folder, theirs.eval(), tokenizer


@pytest.fixture(scope="module", params=["there", "converted"])
def folder(request, trained, tmp_path_factory):
    if request.param == "there":
        return trained[0]
    return convert(trained[0], out=tmp_path_factory.mktemp("bart") / "ours").path


def written(tmp_path, name, lines):
    (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return tmp_path / name


def test_the_texts_are_theirs(trained, folder):
    _, theirs, tokenizer = trained
    asked = tokenizer(SOURCES, return_tensors="pt", padding=True)
    for beams in (1, 2):
        ids = theirs.generate(**asked, num_beams=beams, max_length=40)
        expected = tokenizer.batch_decode(ids, skip_special_tokens=True)
        assert expected == TARGETS
        translator = Translator(folder, device="cpu", beam_size=beams, workers=1)
        assert [each.text for each in translator(SOURCES)] == expected


@torch.no_grad()
def test_forced_scores_are_those_of_their_labels(trained, folder, tmp_path):
    _, theirs, tokenizer = trained
    given = written(tmp_path, "src", SOURCES), written(tmp_path, "ref", TARGETS)
    found = score(model=folder, src=given[0], ref=given[1], device="cpu")
    for one, source, target in zip(found.scores, SOURCES, TARGETS, strict=True):
        pair = tokenizer(source, text_target=target, return_tensors="pt")
        loss = theirs(**pair).loss
        assert one.num_tokens == pair["labels"].size(1)
        assert one.log_prob == pytest.approx(-float(loss) * one.num_tokens, rel=1e-3, abs=1e-4)
    assert found.perplexity < 1.2


def test_what_it_says_exactly_has_all_the_bleu_there_is(folder, tmp_path):
    given = written(tmp_path, "src", SOURCES), written(tmp_path, "ref", TARGETS)
    found = evaluate(src=given[0], ref=given[1], model=folder, device="cpu")
    assert next(each.value for each in found.scores if each.name == "BLEU") == pytest.approx(100)


def test_a_translation_s_own_log_probability_is_its_forced_score(folder, tmp_path):
    said = list(Translator(folder, device="cpu", workers=1)(SOURCES))
    given = written(tmp_path, "src", SOURCES), written(tmp_path, "ref", [each.text for each in said])
    for one, reported in zip(score(model=folder, src=given[0], ref=given[1]).scores, said, strict=True):
        assert one.log_prob == pytest.approx(reported.candidates[0].log_prob, abs=1e-4)


def test_both_sides_have_one_tokeniser(folder, trained, tmp_path):
    """So a control may compare source and target, and a recipe that starts here trains on <s> too."""
    tokenizers = Translator(folder, device="cpu", workers=1).loaded.tokenizers
    assert tokenizers.joint
    assert tokenizers.target.encode("of") == trained[2](text_target="of")["input_ids"][:-1]
    back = convert(folder, out=tmp_path / "back", to="hf").path if folder != trained[0] else trained[0]
    convert(back, out=tmp_path / "again")
    assert load_model(tmp_path / "again").tokenizers.digest() == tokenizers.digest()
