"""Masked tokens: the predictions of transformers for the same ids; other words are tokenised as usual."""

import json
from dataclasses import replace

import pytest
import tokenizers
import torch

import regard
from regard.data.masked_text import in_context
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import DataError, FolderError
from regard.verbs.fill import Filler, fill, fill_file, output_lines
from regard.verbs.shared.load_encoder import most_probable

TEXT = "Paris is the {} of France."


@pytest.fixture(scope="module")
def ours(encoder_folder):
    return encoder_folder("masked_language_model", preset="small")


@torch.no_grad()
def shares_of(theirs, ids, mask_id):
    """Of each token at each mask."""
    logits = theirs(torch.tensor([ids])).logits[0]
    return logits[[place for place, number in enumerate(ids) if number == mask_id]].softmax(-1)


def same(found, shares, pieces):
    """True if the predictions are the most probable tokens, with these probabilities."""
    best = shares.topk(len(found))
    assert [token for token, _ in found] == [pieces[number] for number in best.indices.tolist()]
    assert [probability for _, probability in found] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.parametrize("model", ["BertForMaskedLM", "BertForPreTraining", "DistilBertForMaskedLM"])
@pytest.mark.parametrize("mask", ["[MASK]", "<mask>"])
def test_bert_guesses_what_it_guesses_there(their_encoder, model, mask):
    folder, theirs, vocabulary = their_encoder(model)
    words = ["[CLS]", "paris", "is", "the", "[MASK]", "of", "france", ".", "[SEP]"]
    if model == "BertForPreTraining":
        inner = theirs.forward
        theirs.forward = lambda ids: type("Output", (), {"logits": inner(ids).prediction_logits})
    [shares] = shares_of(theirs, [vocabulary.index(word) for word in words], 4)
    [found] = fill(TEXT.format(mask), model=folder, top=7)
    same(found, shares, vocabulary)


def test_roberta_s_mask_takes_the_space_before_it(their_encoder):
    folder, theirs, vocabulary = their_encoder("RobertaForMaskedLM")
    backend = tokenizers.Tokenizer(
        tokenizers.models.BPE({piece: n for n, piece in enumerate(vocabulary)}, [("Ġ", "o"), ("Ġo", "f")])
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    ids = [0, *backend.encode("It is <mask> of!").ids, 2]
    [shares] = shares_of(theirs, ids, 4)
    for spelling in ("[MASK]", "<mask>"):
        [found] = fill(f"It is {spelling} of!", model=folder, top=3)
        assert [probability for _, probability in found] == pytest.approx(
            shares.topk(3).values.tolist(), abs=1e-5
        )


@pytest.mark.parametrize("kind", ["bpe", "bytebpe", "words", "wordpiece", "unigram", "wordpunct"])
@pytest.mark.parametrize("text", ["the cat sat on the mat .", "a good, bad film: the cat"])
def test_words_around_a_hidden_one_are_cut_as_if_it_were_there(kind, text):
    tokenizer = train_tokenizer(
        ["the cat sat on the mat . a good, bad film: the"] * 3, kind, TokenizerSettings()
    )
    words = tokenizer.words(text)
    pieces = tokenizer.encode_words(text)
    spoken = text.split(" ")
    assert len(words) >= len(spoken)
    for number in range(1, len(spoken) - 1):
        before, after = " ".join(spoken[:number]) + " ", " " + " ".join(spoken[number + 1 :])
        left, right = in_context(tokenizer, [before, after])
        whole = [each for word in pieces for each in word]
        assert whole[: len(left)] == left
        assert whole[len(whole) - len(right) :] == right
        hidden = tokenizer.encode(f"x {spoken[number]}")[len(tokenizer.encode("x")) :]
        assert len(left) + len(hidden) + len(right) == len(whole)


@torch.no_grad()
def test_a_model_of_regard_guesses_what_stands_for_the_unknown_token(ours):
    loaded = regard.load(ours)
    tokenizer = loaded.tokenizers.source
    ids = [tokenizer.bos_id, *tokenizer.encode("the cat sat on"), tokenizer.unk_id]
    ids += [*tokenizer.encode("x mat .")[len(tokenizer.encode("x")) :], tokenizer.eos_id]
    logits = loaded.model(torch.tensor([ids]), torch.tensor([len(ids)]))
    shares = logits[0, ids.index(tokenizer.unk_id)].softmax(-1)
    for spelling in ("[MASK]", "<mask>", "<unk>"):
        [found] = fill(f"the cat sat on {spelling} mat .", model=ours, top=4)
        assert [share for _, share in found] == pytest.approx(shares.topk(4).values.tolist(), abs=1e-5)
        assert all(token == token.strip() != "" for token, _ in found)


def test_each_mask_has_its_predictions_most_probable_first(ours):
    found = fill("[MASK] cat <mask>[MASK] on", model=ours, top=6)
    assert [len(guesses) for guesses in found] == [6, 6, 6]
    for guesses in found:
        shares = [share for _, share in guesses]
        assert shares == sorted(shares, reverse=True)
    vocab_size = regard.load(ours).tokenizers.source.vocab_size
    [all_of_them] = fill("the [MASK]", model=ours, top=10**6)
    assert len(all_of_them) == vocab_size
    assert sum(share for _, share in all_of_them) == pytest.approx(1)
    assert regard.fill(["a [MASK]", ""], model=ours, top=1) == [fill("a [MASK]", model=ours, top=1), []]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_of_equally_probable_classes_the_first_comes_first(count):
    logits = torch.tensor([[0.0, 2, 1, 2, 1, 1], [1.0, 1, 1, 1, 1, 1], [5.0, 4, 3, 2, 1, 0]])
    found = [[number for number, _ in row] for row in most_probable(logits, count)]
    assert found == [row[:count] for row in ([1, 3, 2, 4, 5, 0], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5])]
    many = torch.randint(0, 9, (20, 3000)).float()
    shares = torch.softmax(many.double(), -1)
    for row, wanted in zip(most_probable(many, count), shares.tolist(), strict=True):
        best = sorted(range(3000), key=lambda number: -wanted[number])[:count]
        assert row == [(number, wanted[number]) for number in best]


def test_masks_are_ranked_in_slices(ours, monkeypatch):
    text = "the [MASK] sat on <mask> [MASK]"
    whole, sizes = fill(text, model=ours), []

    def counted(logits, count):
        sizes.append(len(logits))
        return most_probable(logits, count)

    monkeypatch.setattr("regard.verbs.fill.most_probable", counted)
    monkeypatch.setattr("regard.verbs.fill.PROBABILITIES", 2 * regard.load(ours).tokenizers.source.vocab_size)
    assert (fill(text, model=ours), sizes) == (whole, [2, 1])


def test_neither_batch_nor_neighbours_change_a_guess(ours, tmp_path):
    texts = ["the [MASK] sat", "", "a good [MASK] film , the [MASK] on the mat", "[MASK]"]
    together = [each.to_dict() for each in Filler(ours, batch_tokens=1)(texts)]
    for number, text in enumerate(texts, start=1):
        [alone] = Filler(ours)([text])
        assert {**alone.to_dict(), "line": number} == together[number - 1]
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    assert [len(each) for each in fill_file(tmp_path / "texts", model=ours)] == [1, 0, 2, 1]


def test_a_text_that_hides_nothing_is_refused_after_those_before_it(ours):
    answers = Filler(ours)(["a [MASK]", "a [mask]", "the [MASK]"])
    assert next(answers).line == 1
    with pytest.raises(DataError, match="text 2 has no masked token") as raised:
        next(answers)
    assert raised.value.hint == "write [MASK] or <mask> in place of a token"


def test_a_text_that_is_too_long_is_refused(their_encoder):
    folder, *_ = their_encoder("BertForMaskedLM")
    assert len(fill("[MASK] " + "bad " * 15, model=folder)) == 1
    with pytest.raises(
        DataError, match=r"text 1 is too long: 17 tokens and two special .* only 18 positions"
    ):
        fill("[MASK] " + "bad " * 16, model=folder)


def test_a_model_with_another_head_is_refused(encoder_folder, their_encoder):
    with pytest.raises(
        FolderError, match="not a model that predicts masked tokens: its head is 'classification'"
    ):
        fill("a [MASK]", model=encoder_folder("classification", ("bad", "good")))
    with pytest.raises(FolderError, match="it has no trained head"):
        fill("a [MASK]", model=their_encoder("BertModel")[0])


def test_what_is_printed_is_what_was_found(ours):
    [found] = Filler(ours, top=2)(["[MASK] [MASK]"])
    lines = [line.split("\t") for line in output_lines(found).splitlines()]
    assert [line[:2] for line in lines] == [["1", "1"], ["1", "1"], ["1", "2"], ["1", "2"]]
    reported = json.loads(output_lines(found, as_json=True))
    assert [guess["token"] for guesses in reported["masks"] for guess in guesses] == [
        line[2] for line in lines
    ]
    [nothing] = Filler(ours)([" "])
    assert output_lines(nothing) == ""


def test_a_line_end_is_escaped_so_that_a_guess_is_one_line(ours):
    [found] = Filler(ours, top=1)(["[MASK]"])
    odd = replace(found, masks=((replace(found.masks[0][0], token="a\tb\n"),),))
    [line] = output_lines(odd).splitlines()
    assert line.split("\t")[2] == r"a\tb\n"
