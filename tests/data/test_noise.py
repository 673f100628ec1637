"""BPE-dropout: the library's segmentation without dropout, dependent on text and seed alone with it."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpus import Pair
from regard.data.noise import BpeDropout, SampledTokenizer, derive_seed
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.errors import RecipeError

LINES = [
    "lower newest widest lowest newer wider new low",
    "Der Mann  sieht den neuesten, weitesten Abstand!",
    "don't <s> t-shirts 3.14 </s> naïve ☃",
]
PAIRS = [Pair(source=line, target=line, line=number) for number, line in enumerate(LINES, start=1)]
TRAINED = {
    kind: train_tokenizers(PAIRS, TokenizerSettings(kind=kind, vocab_size=320)).source
    for kind in ("bpe", "bytebpe")
}
RANKS = {("l", "o"): 0, ("lo", "w"): 1, ("e", "r"): 2, ("low", "er"): 3}

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from([*" ".join(LINES).split(" "), "unseen", "☂"])
).map(" ".join)


@pytest.mark.parametrize("kind", TRAINED)
@given(text=texts)
def test_without_dropout_it_is_the_librarys_segmentation(kind, text):
    assert SampledTokenizer(TRAINED[kind], 0.0, seed=5).encode(text) == TRAINED[kind].encode(text)


@pytest.mark.parametrize("kind", TRAINED)
@given(text=texts, seed=st.integers(0, 9), dropout=st.floats(0, 0.99))
def test_dropout_does_not_change_the_text(kind, text, seed, dropout):
    tokenizer: Tokenizer = TRAINED[kind]
    ids = SampledTokenizer(tokenizer, dropout, seed).encode(text)
    assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text))
    assert len(ids) >= len(tokenizer.encode(text))


def test_it_is_a_function_of_the_text_and_the_seed():
    tokenizer = TRAINED["bpe"]
    forwards, backwards, other = (SampledTokenizer(tokenizer, 0.3, seed) for seed in (1, 1, 2))
    one = [forwards.encode(line) for line in LINES]
    assert one == [backwards.encode(line) for line in reversed(LINES)][::-1] == forwards.encode_batch(LINES)
    assert one != other.encode_batch(LINES)


def test_it_does_not_depend_on_what_is_remembered(monkeypatch):
    monkeypatch.setattr(SampledTokenizer, "CACHED", 2)
    forgetful = SampledTokenizer(TRAINED["bpe"], 0.3, 1).encode_batch(LINES)
    monkeypatch.undo()
    assert forgetful == SampledTokenizer(TRAINED["bpe"], 0.3, 1).encode_batch(LINES)


def test_it_is_the_same_in_another_process():
    program = """if True:
        import runpy, sys
        test = runpy.run_path(sys.argv[1])
        print(test["SampledTokenizer"](test["TRAINED"]["bpe"], 0.5, 3).encode_batch(test["LINES"]))
    """
    process = subprocess.run(
        [sys.executable, "-c", program, __file__],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert process.strip() == str(SampledTokenizer(TRAINED["bpe"], 0.5, 3).encode_batch(LINES))


def test_each_merge_is_left_out_with_the_given_probability():
    sample = BpeDropout(ranks={("a", "b"): 0}, dropout=0.25, seed=1)
    apart = sum(sample("ab", variant) == ["a", "b"] for variant in range(20_000))
    assert apart / 20_000 == pytest.approx(0.25, abs=0.015)  # five standard errors


def test_a_merge_that_was_left_out_may_come_back_later():
    sample = BpeDropout(ranks=RANKS, dropout=0.5, seed=1)
    found = {tuple(sample("lower", variant)) for variant in range(500)}
    assert ("lower",) in found
    assert ("l", "o", "w", "e", "r") in found
    assert ("low", "er") in found
    assert ("l", "o", "w", "er") in found
    assert all("".join(pieces) == "lower" for pieces in found)


def test_merges_go_by_rank_and_then_from_the_left():
    segment = BpeDropout(ranks={("a", "a"): 1, ("a", "b"): 0}, dropout=0.0, seed=0)
    assert segment("aaaab") == ["aa", "a", "ab"]
    assert segment("") == []


def test_a_word_too_long_for_dropout_is_segmented_without():
    long = "lower" * 1000
    assert SampledTokenizer(TRAINED["bpe"], 0.9, 1).encode(long) == TRAINED["bpe"].encode(long)


def test_frequent_words_are_segmented_in_several_forms():
    sampled = SampledTokenizer(TRAINED["bpe"], 0.3, seed=1)
    assert len({tuple(sampled.encode(f"newest {number}")[:-2]) for number in range(200)}) > 5


def test_kinds_without_merges_are_refused():
    words = train_tokenizers(PAIRS, TokenizerSettings(kind="words")).source
    with pytest.raises(RecipeError, match="no merges to drop"):
        SampledTokenizer(words, 0.1, 1)


def test_mixed_seeds_differ_and_fit_a_generator():
    seeds = {derive_seed(one, other) for one in range(50) for other in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_copies_without_dropout_are_refused_and_a_joint_vocabulary_has_one_kind():
    with pytest.raises(RecipeError, match="copies = 9 has no effect"):
        TokenizerSettings(kind="bpe", copies=9).refuse_unused()
    TokenizerSettings(kind="bpe", copies=9, dropout=0.1).refuse_unused()
    with pytest.raises(RecipeError) as caught:
        TokenizerSettings(kind="words", target_kind="bpe")
    assert caught.value.hint.startswith("leave out target_kind")
