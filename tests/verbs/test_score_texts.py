"""The score of a text under a language model is the sum of its predictions, as others compute it."""

import json
import math
from types import SimpleNamespace

import pytest
import torch

from regard.errors import DataError, FolderError, UserError
from regard.verbs.convert import convert
from regard.verbs.evaluate import evaluate
from regard.verbs.score import score
from regard.verbs.score_texts import TextScorer
from regard.weights.model_folder import load_model
from tests.nightly import nightly_but

TEXTS = ["To be, or not to be", "that", "", "is the question: whether 'tis nobler\nto be"]
KINDS = ["characters", "bytes", "bytebpe", "bpe", "unigram"]


def sums(lines):
    return [each.score.log_prob for each in lines]


def reference(folder, text):
    """The log-probability of each predicted token, by one forward pass."""
    loaded = load_model(folder)
    tokenizer = loaded.tokenizers.source
    ids = tokenizer.encode(text)
    if loaded.generation.get("begin", True):
        ids = [tokenizer.bos_id, *ids, tokenizer.eos_id]
    log_probs = loaded.model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    return log_probs[range(len(ids) - 1), ids[1:]].tolist()


@pytest.mark.parametrize("begin", [True, False])
def test_a_score_is_the_sum_of_the_predictions_alone_and_in_any_batch(decoder_folder, begin):
    folder = decoder_folder(decoding={"begin": begin})
    scorer = TextScorer(folder)
    found = [each.score for each in scorer(TEXTS)]
    for text, one in zip(TEXTS, found, strict=True):
        expected = reference(folder, text) if text or begin else []
        assert one.token_log_probs == pytest.approx(expected, abs=1e-4)
        assert one.log_prob == pytest.approx(sum(expected), abs=1e-3)
        assert one.num_tokens == len(expected) == len(text) + (1 if begin else -1 if text else 0)
        mean = one.log_prob / max(one.num_tokens, 1)
        assert one.perplexity == (pytest.approx(math.exp(-mean)) if one.num_tokens else None)
    assert sums(TextScorer(folder, batch_tokens=1)(TEXTS)) == pytest.approx([each.log_prob for each in found])


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize("length", [64, 8])  # of a window: the text has more tokens than the second
def test_the_sum_is_that_of_evaluate(decoder_folder, tmp_path, begin, length):
    folder = decoder_folder(decoding={"begin": begin}, trained_length=length)
    (tmp_path / "text.txt").write_text(TEXTS[3])
    [one] = TextScorer(folder)([TEXTS[3]])
    scores = {each.name: each for each in evaluate(model=folder, data=tmp_path / "text.txt").scores}
    assert f"tokens:{one.score.num_tokens}|" in scores["loss"].signature
    assert one.score.log_prob == pytest.approx(-scores["loss"].value * one.score.num_tokens, rel=1e-5)
    assert one.score.perplexity == pytest.approx(scores["perplexity"].value, rel=1e-5)


@pytest.mark.parametrize("kind", nightly_but(KINDS, "characters", "bytebpe"))
@pytest.mark.parametrize("begin", [True, False])
def test_a_text_is_as_probable_as_its_beginning_and_its_completion(decoder_folder, kind, begin):
    """If the beginning ends where a token does; the end of a text counts once."""
    folder = decoder_folder(kind, decoding={"begin": begin})
    scorer = TextScorer(folder)
    prompt, completion = "To be, or", " not to be"
    [completed] = scorer.completions([(prompt, completion)])
    [whole] = scorer([prompt + completion])
    read = whole.score.num_tokens - completed.score.num_tokens
    assert read > 0
    assert completed.score.token_log_probs == whole.score.token_log_probs[read:]
    if kind == "characters":
        assert completed.score.num_tokens == len(completion) + begin


def test_a_long_prompt_leaves_only_its_completion_in_the_score(decoder_folder):
    scorer = TextScorer(decoder_folder(trained_length=8))
    prompt = TEXTS[3]
    [completed] = scorer.completions([(prompt, " be")])
    [whole] = scorer([prompt + " be"])
    assert completed.score.token_log_probs == pytest.approx(whole.score.token_log_probs[len(prompt) :])
    assert completed.score.num_tokens == 4


def test_a_prompt_without_text_gives_the_score_of_the_text(decoder_folder):
    scorer = TextScorer(decoder_folder())
    assert sums(scorer.completions([("", TEXTS[0])])) == sums(scorer([TEXTS[0]]))
    with pytest.raises(DataError, match="pair 1 is not a prompt and its completion"):
        next(scorer.completions(iter([TEXTS[0]])))


def test_the_first_token_is_predicted_from_the_begin_token_or_not_at_all(decoder_folder):
    folder = decoder_folder(decoding={"begin": False})
    [without] = TextScorer(folder)(["that"])
    [with_begin] = TextScorer(folder, begin=True)(["that"])
    assert (without.score.num_tokens, with_begin.score.num_tokens) == (3, 4)
    trained = decoder_folder(decoding={"begin": True})
    assert [each.score.num_tokens for each in TextScorer(trained)(["that"])] == [5]
    assert [each.score.num_tokens for each in TextScorer(trained, begin=False)(["that"])] == [4]
    [no_end] = TextScorer(trained, end=False)(["that"])
    assert no_end.score.token_log_probs == pytest.approx(reference(trained, "that")[:-1], abs=1e-4)


def test_gpt2_has_the_scores_of_transformers(their_folder):
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    marks = {"bos_token_id": 0, "eos_token_id": 0}
    folder, theirs, _ = their_folder(
        "GPT2LMHeadModel", "GPT2Config", {**sizes, **marks}, pieces="bytes", more=("<|endoftext|>",)
    )
    scorer = TextScorer(folder)
    text = "a film of a good city"
    ids = scorer.loaded.tokenizers.source.encode(text)
    [one] = scorer([text])
    batch = torch.tensor([ids])
    loss = theirs(batch, labels=batch).loss.item()
    assert one.score.num_tokens == len(ids) - 1
    assert one.score.log_prob == pytest.approx(-loss * (len(ids) - 1), rel=1e-4)
    assert one.score.perplexity == pytest.approx(math.exp(loss), rel=1e-4)


def test_the_end_of_llama_is_not_counted_unless_asked_for_nor_after_a_conversion(their_folder, tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    marks = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    folder, theirs, _ = their_folder("LlamaForCausalLM", "LlamaConfig", {**sizes, **marks}, pieces="bytes")
    text = "a film of a good city"
    scorer = TextScorer(folder)
    ids = scorer.loaded.tokenizers.source.encode(text)
    [one] = scorer([text])
    batch = torch.tensor([[0, *ids]])
    assert one.score.num_tokens == len(ids)
    assert one.score.log_prob == pytest.approx(-theirs(batch, labels=batch).loss.item() * len(ids), rel=1e-4)
    convert(folder, out=tmp_path / "converted")
    [converted] = TextScorer(tmp_path / "converted")([text])
    assert converted.score.token_log_probs == pytest.approx(one.score.token_log_probs, abs=1e-5)
    for source in (folder, tmp_path / "converted"):
        [with_end] = TextScorer(source, end=True)([text])
        assert with_end.score.num_tokens == len(ids) + 1


def test_a_masked_language_model_predicts_each_token_from_all_others(encoder_folder):
    folder = encoder_folder("masked_language_model")
    scorer = TextScorer(folder)
    loaded = load_model(folder)
    tokenizer = loaded.tokenizers.source
    ids = tokenizer.encode("the cat sat")
    expected = []
    for place, token in enumerate(ids):
        masked = [*ids[:place], tokenizer.unk_id, *ids[place + 1 :]]
        row = torch.tensor([[tokenizer.bos_id, *masked, tokenizer.eos_id]])
        logits = loaded.model(row, torch.tensor([row.size(1)]))[0, 1 + place]
        expected.append(float(logits.detach().log_softmax(-1)[token]))
    found = list(scorer(["", "the cat sat"]))
    assert found[0].score.num_tokens == 0
    assert found[1].score.token_log_probs == pytest.approx(expected, abs=1e-4)
    [completed] = scorer.completions([("the cat", " sat")])
    assert completed.score.token_log_probs == pytest.approx(expected[-completed.score.num_tokens :], abs=1e-4)


def test_what_a_model_does_not_score_is_refused(decoder_folder, encoder_folder, untrained, tmp_path):
    with pytest.raises(FolderError, match="not a model that scores texts"):
        TextScorer(untrained)
    with pytest.raises(FolderError, match="not a model that scores texts, as language models") as refused:
        TextScorer(encoder_folder("classification", ("a", "b")))
    assert "it classifies texts" in refused.value.hint
    with pytest.raises(UserError, match="prefix is for a model that translates"):
        TextScorer(decoder_folder(), prefix="x")
    with pytest.raises(UserError, match="reads from left to right"):
        TextScorer(encoder_folder("masked_language_model"), begin=True)
    limited = encoder_folder("masked_language_model", positions="learned", max_positions=8)
    with pytest.raises(DataError, match="text 2 is too long"):
        list(TextScorer(limited)(["a", "a good film " * 8]))
    (tmp_path / "text").write_text("a line\nanother\n")
    with pytest.raises(DataError, match="no table of pairs") as refused:
        score(model=decoder_folder(), data=tmp_path / "text")
    assert "--input FILE" in refused.value.hint


def test_a_model_of_a_registered_task_is_scored_in_windows_of_its_own_length(decoder_folder, monkeypatch):
    folder = decoder_folder(trained_length=8)
    [usual] = TextScorer(folder)([TEXTS[3]])
    other = SimpleNamespace(recipe=None)
    monkeypatch.setattr("regard.verbs.score_texts.evaluated_recipe", lambda loaded, data: other)
    assert [*TextScorer(folder)([TEXTS[3]])] == [usual]


def test_files_have_the_scores_of_their_texts(decoder_folder, tmp_path):
    folder = decoder_folder()
    scorer = TextScorer(folder)
    (tmp_path / "lines").write_text("".join(f"{text}\n" for text in TEXTS[:3]))
    assert score(model=folder, input=tmp_path / "lines").scores == [each.score for each in scorer(TEXTS[:3])]
    pairs = [("To be", " or not"), ("that", " is\nthe")]
    for name, which in (("src", 0), ("ref", 1)):
        (tmp_path / name).write_text("".join(f"{pair[which]}\n" for pair in pairs[:1]))
    records = "".join(json.dumps({"id": 1, "prompt": one, "completion": two}) + "\n" for one, two in pairs)
    (tmp_path / "pairs.jsonl").write_text(records)
    expected = sums(scorer.completions(pairs))
    table = score(model=folder, data=tmp_path / "pairs.jsonl", columns=("prompt", "completion"))
    assert [each.log_prob for each in table.scores] == pytest.approx(expected)
    lines = score(model=folder, src=tmp_path / "src", ref=tmp_path / "ref")
    assert [each.log_prob for each in lines.scores] == pytest.approx(expected[:1])
    column = score(model=folder, input=tmp_path / "pairs.jsonl", column="completion")
    assert [each.log_prob for each in column.scores] == pytest.approx(sums(scorer([two for _, two in pairs])))
