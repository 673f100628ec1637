"""Texts and tagged sentences: special tokens, pieces, windows, batches; each word is predicted once."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batch import Batch, LabelledBatch
from regard.data.corpus import Pair
from regard.data.examples import Examples
from regard.data.tagged import tagged_texts, word_windows
from regard.data.texts import (
    NO_WORD,
    EncodedText,
    TextExamples,
    apply_noise,
    encoded_text,
    length_sorted_batches,
    text_batch,
)
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer

WORDS = ["the", "cat", "sat", "on", "the", "mat", "and", "the", "dog", "ran", "after", "the", "cat"]
TOKENIZER = train_tokenizer(WORDS * 3, "bpe", TokenizerSettings(vocab_size=60))
KINDS = ("bpe", "bytebpe", "bytes", "characters", "words", "wordpiece", "unigram", "wordpunct")


def text(*pieces, label=0, line=1, **options):
    return encoded_text(pieces, [label], tokenizer=TOKENIZER, line=line, **options)


def test_a_text_is_between_special_tokens():
    found = text([7, 8], [9], label=4, line=12)
    assert found.ids.tolist() == [TOKENIZER.bos_id, 7, 8, 9, TOKENIZER.eos_id]
    assert found.words.tolist() == [NO_WORD, 0, 0, 1, NO_WORD]
    assert (found.labels.tolist(), found.line, found.places) == ([4], 12, None)


def test_of_a_long_text_the_beginning_is_read():
    assert text([7, 8], [9, 10], max_tokens=5).ids.tolist() == [2, 7, 8, 9, 3]
    assert text([7, 8], max_tokens=4).ids.tolist() == [2, 7, 8, 3]
    assert text().ids.tolist() == [2, 3]


@pytest.mark.parametrize("kind", KINDS)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_words_end_to_end_are_the_text(kind, string):
    tokenizer = train_tokenizer(WORDS, kind, TokenizerSettings(kind=kind, vocab_size=300))
    words = tokenizer.encode_words(string)
    assert [number for word in words for number in word] == tokenizer.encode(string)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60), st.integers(4, 20))
def test_each_word_is_predicted_once_and_no_window_is_too_long(sizes, most):
    found = word_windows(sizes, most)
    assert [word for window in found for word in range(window.start, window.stop)] == list(range(len(sizes)))
    for window in found:
        assert window.first <= window.start < window.stop <= window.end
        assert sum(min(size, most) for size in sizes[window.first : window.end]) <= most


def test_what_fits_is_one_window_and_what_does_not_has_context():
    [only] = word_windows([2] * 10, 20)
    assert (only.first, only.end, only.start, only.stop) == (0, 10, 0, 10)
    several = word_windows([1] * 100, 20)
    assert len(several) < 100 / 10 + 2
    for window in several:
        assert window.start == 0 or window.start - window.first >= 5
        assert window.stop == 100 or window.end - window.stop >= 5


@given(st.lists(st.lists(st.integers(4, 50), max_size=12), min_size=1, max_size=40), st.integers(6, 20))
def test_the_label_of_a_word_is_at_its_first_piece(pieces, most):
    labels = [number % 5 for number in range(len(pieces))]
    texts = tagged_texts(pieces, labels, tokenizer=TOKENIZER, line=3, max_tokens=most)
    assert np.concatenate([each.labels for each in texts]).tolist() == labels
    read = [each.words[each.places] for each in texts]
    assert np.concatenate(read).tolist() == list(range(len(pieces)))
    for each in texts:
        assert len(each.ids) <= most
        assert (np.diff(each.words)[each.places - 1] != 0).all(), "a first piece follows another word"
        for place, word in zip(each.places, each.words[each.places], strict=True):
            assert each.ids[place] == (pieces[word] or [TOKENIZER.unk_id])[0]


def test_a_batch_keeps_every_id_label_and_line():
    texts = [text([7, 8], [9], label=1, line=5), text([4], label=0, line=9)]
    batch = text_batch(texts, pad_id=0)
    assert batch.ids.tolist() == [[2, 7, 8, 9, 3], [2, 4, 3, 0, 0]]
    assert batch.lengths.tolist() == [5, 3]
    assert (batch.labels.tolist(), batch.lines.tolist(), batch.num_targets) == ([1, 0], [5, 9], 2)
    assert batch.places is None
    assert isinstance(batch, Batch)
    assert isinstance(batch, LabelledBatch)
    assert torch.equal(batch.to("cpu").ids, batch.ids)
    assert batch.to("meta").lines.device.type == "meta"


def test_labels_of_places_are_row_by_row():
    sentences = [[[7, 8], [9]], [[4], [5, 5], [6]]]
    texts = [
        each
        for line, pieces in enumerate(sentences)
        for each in tagged_texts(
            pieces, [10 * line + i for i in range(len(pieces))], tokenizer=TOKENIZER, line=line, max_tokens=9
        )
    ]
    batch = text_batch(texts, pad_id=0)
    assert batch.places is not None
    assert batch.ids[batch.places].tolist() == [7, 9, 4, 5, 6]
    assert batch.labels.tolist() == [0, 1, 10, 11, 12]


def test_numbers_to_predict_are_floats():
    batch = text_batch([text([4], label=1.5)], pad_id=0)
    assert batch.labels.dtype == torch.float32


def test_examples_take_turns_through_segmentations():
    first, second = [text([7, 8]), text([9])], [text([7], [8, 8, 8]), text([9])]
    asked = []
    segmentations = [partial(texts_of, each, asked) for each in (first, second)]
    examples = TextExamples(segmentations, pad_id=0)
    both = np.array([0, 1])
    assert isinstance(examples, Examples)
    assert len(examples) == 2
    assert examples.lengths(both, 0)[0].tolist() == [4, 3]
    assert examples.lengths(both, 1)[0].tolist() == [6, 3]
    assert examples.batch(both, 2).ids.tolist() == examples.batch(both, 0).ids.tolist()
    assert examples.batch(both[::-1], 1).lengths.tolist() == [3, 6]
    assert asked == [first, second], "each is asked once"


def test_a_line_that_a_later_segmentation_cuts_otherwise_stays_as_in_the_first():
    def line(number, *ids):
        return replace(text(list(ids)), line=number)

    first = [line(1, 7), line(1, 8), line(2, 9), line(3, 10)]
    second = [line(1, 70), line(1, 80), line(2, 90), line(2, 91), line(3, 100)]
    third = [line(1, 71), line(2, 92)]
    examples = TextExamples([lambda: first, lambda: second, lambda: third], pad_id=0)
    everything = np.arange(len(examples))
    read = [examples.batch(everything, epoch).ids[:, 1].tolist() for epoch in range(3)]
    assert read == [[7, 8, 9, 10], [70, 80, 9, 100], [7, 8, 92, 10]]
    assert all(len(examples.lengths(everything, epoch)[0]) == 4 for epoch in range(3))


def texts_of(texts, asked):
    asked.append(texts)
    return texts


def test_noise_knows_the_epoch_and_the_example():
    calls = []

    def noise(text, epoch, example):
        calls.append((epoch, example))
        return text

    texts = [text([number]) for number in range(4, 8)]
    TextExamples([lambda: texts], pad_id=0, noise=noise).batch(np.array([3, 1]), 5)
    assert calls == [(5, 3), (5, 1)]
    assert apply_noise(noise, texts) == texts
    assert calls[2:] == [(0, 0), (0, 1), (0, 2), (0, 3)]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(1, 100))
def test_all_texts_are_put_into_batches_once(lengths, batch_tokens):
    texts = [text([5] * length) for length in lengths]
    groups = list(length_sorted_batches(texts, 0, batch_tokens))
    assert sorted(number for numbers, _ in groups for number in numbers) == list(range(len(texts)))
    for numbers, batch in groups:
        assert batch.lengths.tolist() == [len(texts[number].ids) for number in numbers]
        assert batch.ids.numel() <= batch_tokens or len(batch) == 1


def test_pairs_are_of_text_and_label():
    """A record of a file of labelled texts is a `Pair` of text and label."""
    assert Pair(source="text", target="label", line=1).target == "label"


def test_halves_keep_the_labels_of_their_places():
    def placed(places, labels, line):
        ids = np.arange(5, dtype=np.int32)
        return EncodedText(
            ids=ids, words=ids, labels=np.array(labels), line=line, places=np.array(places, np.int32)
        )

    batch = text_batch(
        [placed([1, 3], [10, 11], 1), placed([2], [20], 2), placed([0, 1, 4], [30, 31, 32], 3)], 0
    )
    first, last = batch.halves()
    assert (first.labels.tolist(), last.labels.tolist()) == ([10, 11], [20, 30, 31, 32])
    assert [half.places.sum().item() for half in (first, last)] == [2, 4]
    assert last.halves()[1].labels.tolist() == [30, 31, 32]
