"""Texts as tokens; stop texts are found across tokens, and nothing of them is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.hypothesis import Power, Request
from regard.decoding.phrases import StopTexts, partial_stop, phrases, up_to
from regard.decoding.rules import BannedTokens, LengthLimits, MinimumLength
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch, GreedySearch
from regard.errors import ConfigError

SYMBOLS = "....abcd"  # what the ids 4 to 7 spell; 8 spells two letters


class Letters:
    """A tokeniser of the letters a to d and of the pair "ab"."""

    unk_id, vocab_size = 1, 10

    def encode_words(self, text):
        return [[SYMBOLS.index(letter) if letter in "abcd" else 1] for letter in text]

    def decode(self, ids):
        return "".join("ab" if token == 8 else SYMBOLS[token] for token in ids if token > 3)


class Joined(Letters):
    """One that spells a text after a space otherwise."""

    def encode_words(self, text):
        return [[9]] if text == " a" else super().encode_words(text)


def test_a_text_is_spelt_as_at_the_beginning_and_as_after_a_space():
    assert phrases(Letters(), "ab", "ban") == ((4, 5),)
    assert phrases(Joined(), "a", "ban") == ((4,), (9,))
    assert phrases(Letters(), "x|ab|d", "must_contain") == ((4, 5), (7,))
    with pytest.raises(ConfigError, match="ban = 'x': this model has no tokens for it"):
        phrases(Letters(), "x", "ban")
    with pytest.raises(ConfigError, match="ban = 'a' needs a tokeniser"):
        phrases(None, "a", "ban")


@given(st.text("abc", max_size=12), st.lists(st.text("abc", min_size=1, max_size=3), max_size=3))
def test_a_text_up_to_its_first_stop_has_none_and_what_waits_is_the_longest_beginning(text, stops):
    shown = up_to(text, stops)
    assert text.startswith(shown)
    assert shown == text or any(text[len(shown) :].startswith(stop) for stop in stops)
    assert not any(stop in shown for stop in stops)
    waiting = partial_stop(text, stops)
    endings = [length for length in range(len(text) + 1) for stop in stops if len(stop) > length]
    assert waiting == max(
        (n for n in endings if any(len(stop) > n and text.endswith(stop[:n]) for stop in stops)), default=0
    )


LIMITS = LengthLimits(ratio=0.0, offset=6)
RULES = (BannedTokens(ids=(0, 1, 2)),)
SOURCES = [[4 + number % 5, number] for number in range(12)]


def ask(sources) -> list[Request]:
    return [Request(src_len=len(source), source=tuple(source)) for source in sources]


@pytest.mark.parametrize("search", [GreedySearch, Sampling, BeamSearch], ids=["greedy", "drawn", "beam"])
def test_a_hypothesis_ends_with_the_token_that_completes_a_stop(make_table, search):
    """ "ca" is said by c and a, or by c and ab: across tokens, and within one."""
    stop = StopTexts(("ca", "dd"), Letters())
    strategy = search(limits=LIMITS, rules=(*RULES, MinimumLength(length=4, eos_id=3)), stop=stop)
    table = make_table(vocab=9)
    found = strategy(table.read(SOURCES), ask(SOURCES))
    stopped = 0
    for source, (hypothesis, *_) in zip(SOURCES, found, strict=True):
        text = Letters().decode(hypothesis.ids)
        before = Letters().decode(hypothesis.ids[:-1])
        assert not any(each in before for each in stop.texts)
        whole = table.hypothesis(source, hypothesis.ids, lambda length: 1.0).token_log_probs
        if any(each in text for each in stop.texts):
            stopped += 1
            whole = whole[:-1]  # it has no end
        assert hypothesis.token_log_probs == pytest.approx(whole, abs=1e-6)
        assert hypothesis.log_prob == pytest.approx(sum(whole), abs=1e-5)
    assert 0 < stopped < len(SOURCES), "else nothing was tested"
    assert found == [strategy(make_table(vocab=9).read([each]), ask([each]))[0] for each in SOURCES]


@pytest.mark.parametrize("search", [GreedySearch, Sampling, BeamSearch], ids=["greedy", "drawn", "beam"])
def test_several_tokens_end_a_text_and_none_before_its_least_length(make_table, search):
    rules = (*RULES, MinimumLength(length=2, eos_id=3, others=(7,)))
    table = make_table(vocab=9)
    found = search(limits=LIMITS, rules=rules, ends=(7,))(table.read(SOURCES), ask(SOURCES))
    ended = 0
    for source, (hypothesis, *_) in zip(SOURCES, found, strict=True):
        assert not {3, 7} & {*hypothesis.ids}
        assert len(hypothesis.ids) >= 2
        log_probs = table.log_probs(tuple(source), (2, *hypothesis.ids))
        ended += hypothesis.token_log_probs[-1] == pytest.approx(log_probs[7].item(), abs=1e-6)
    assert ended, "else the other end was never taken"


def test_a_wide_beam_finds_the_best_end_of_each(make_table, exhaustive_search):
    table = make_table(vocab=7)
    limits = LengthLimits(ratio=0.0, offset=3)
    search = BeamSearch(size=4**3, n_best=6, limits=limits, rules=(BannedTokens(ids=(0, 2)),), ends=(6,))
    found = search(table.read([[4]]), [Request(src_len=1)])[0]
    every = exhaustive_search(
        table, [4], penalty=Power(alpha=0.0), n_best=10**6, lengths=range(4), allowed=lambda ids: 6 not in ids
    )
    best = {}
    for each in every:
        ends = table.log_probs((4,), (2, *each.ids))
        forced = len(each.ids) == 3  # the end at the greatest length is </s>
        end = ends[3].item() if forced else max(ends[3].item(), ends[6].item())
        best[tuple(each.ids)] = sum(each.token_log_probs[:-1]) + end
    expected = sorted(best, key=lambda ids: -best[ids])[:6]
    assert [tuple(each.ids) for each in found] == expected
    assert [each.score for each in found] == pytest.approx([best[ids] for ids in expected], abs=1e-6)


def test_a_stop_is_found_however_long_the_text_is():
    stop = StopTexts(("cd",), Letters())
    assert stop([], [*[4] * 300, 6, 7])
    assert stop([5], [*[4] * 14, 6, 7])
    assert not stop([6], [7, *[4] * 300])
