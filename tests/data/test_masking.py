"""Masking: the right shares, whole words, never special tokens, and reproducible random numbers."""

import numpy as np
import pytest

from regard.data.masking import Masking, MaskingSettings, WordDropout, random_bits
from regard.data.texts import encoded_text
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import RecipeError

TOKENIZER = train_tokenizer(["abc abd"], "characters", TokenizerSettings(kind="characters", vocab_size=20))
UNK, VOCAB = TOKENIZER.unk_id, 50
PIECES = [[10 + word] * (1 + word % 3) for word in range(30)]
TEXT = encoded_text(PIECES, [1], tokenizer=TOKENIZER, line=7)


def masking(seed=1, **settings):
    return Masking(settings=MaskingSettings(**settings), seed=seed, unk_id=UNK, first_id=4, vocab_size=VOCAB)


def many(noise, count=400):
    return [noise(TEXT, epoch, 3) for epoch in range(count)]


def test_random_numbers_depend_on_seed_epoch_and_example():
    assert random_bits(1, 2, 3, 4).tolist() == [59_216_506, 3_437_044_969, 749_270_510, 2_950_188_799]
    unique = {tuple(random_bits(*numbers, 2)) for numbers in np.ndindex(3, 4, 5)}
    assert len(unique) == 60


@pytest.mark.parametrize("noise", [WordDropout(share=0.3, seed=1, unk_id=UNK), masking()])
def test_the_same_example_gets_the_same_noise_in_an_epoch_and_another_in_the_next(noise):
    assert (noise(TEXT, 4, 2).ids == noise(TEXT, 4, 2).ids).all()
    assert (noise(TEXT, 4, 2).ids != noise(TEXT, 5, 2).ids).any()
    assert (noise(TEXT, 4, 2).ids != noise(TEXT, 4, 3).ids).any()


def test_word_dropout_masks_whole_words_and_no_special_tokens():
    noise = WordDropout(share=0.3, seed=1, unk_id=UNK)
    hidden = 0
    for each in many(noise):
        assert each.ids[0], each.ids[-1] == (TOKENIZER.bos_id, TOKENIZER.eos_id)
        assert each.labels is TEXT.labels
        for word in range(30):
            of_word = each.ids[each.words == word]
            assert (of_word == UNK).all() or (of_word == 10 + word).all()
            hidden += of_word[0] == UNK
    assert hidden / (400 * 30) == pytest.approx(0.3, abs=0.02)
    assert (WordDropout(share=0.0, seed=1, unk_id=UNK)(TEXT, 0, 0).ids == TEXT.ids).all()


@pytest.mark.parametrize("whole_words", [True, False])
def test_masking_has_its_share_and_labels_are_the_masked_tokens(whole_words):
    found = many(masking(whole_words=whole_words, share=0.2))
    chosen = sum(len(each.places) for each in found)
    assert chosen / (400 * len(TEXT.ids)) == pytest.approx(0.2, abs=0.02)
    for each in found:
        assert (each.labels == TEXT.ids[each.places]).all()
        elsewhere = np.setdiff1d(np.arange(len(TEXT.ids)), each.places)
        assert (each.ids[elsewhere] == TEXT.ids[elsewhere]).all()
        assert (TEXT.words[each.places] >= 0).all()


def test_eight_of_ten_are_hidden_one_is_another_and_one_stays():
    found = many(masking(), 1500)
    masked = np.concatenate([each.ids[each.places] for each in found])
    labels = np.concatenate([each.labels for each in found])
    assert (masked == UNK).mean() == pytest.approx(0.8, abs=0.02)
    assert (masked == labels).mean() == pytest.approx(0.1 + 0.1 / 46, abs=0.02)
    others = masked[(masked != UNK) & (masked != labels)]
    assert others.min() >= 4
    assert set(others) | set(labels) == set(range(4, VOCAB)) | set(labels)


def test_words_are_whole_if_requested():
    for each in many(masking(whole_words=True), 100):
        for word in range(30):
            inside = np.isin(np.flatnonzero(TEXT.words == word), each.places)
            assert inside.all() or not inside.any()
    parts = [
        np.isin(np.flatnonzero(TEXT.words == 2), each.places)
        for each in many(masking(whole_words=False), 100)
    ]
    assert any(part.any() and not part.all() for part in parts)


def test_something_is_always_hidden_but_what_is_unknown_already():
    short = encoded_text([[9]], [0], tokenizer=TOKENIZER, line=1)
    assert masking()(short, 0, 0).labels.tolist() == [9]
    unknown = encoded_text([[UNK], [UNK]], [0], tokenizer=TOKENIZER, line=1)
    assert len(masking()(unknown, 0, 0).places) == 0


def test_a_share_that_hides_nothing_or_all_is_refused():
    for share in (0.0, 1.0):
        with pytest.raises(RecipeError, match="share"):
            MaskingSettings(share=share)
