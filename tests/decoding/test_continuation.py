"""What follows a prompt: the same with a cache and without, alone and in a batch, at once and as it comes."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from regard.decoding.continuation import (
    ContinuationSettings,
    continue_all,
    prompts_of,
    stream,
)
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.rows import HypothesisRows
from regard.decoding.rules import BannedTokens
from regard.decoding.search import GreedySearch
from regard.errors import ConfigError, DataError
from regard.fast.native import kernels
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from tests.nightly import each_once

VOCAB, BOS, EOS = 24, 2, 3
SHAPES = {
    "learned": {"max_positions": 80},
    "rotary, grouped, window": {"positions": "rotary", "num_kv_heads": 2, "window": 6},
    "alibi": {"positions": "alibi"},
    "t5, rms, swiglu": {"positions": "t5", "norm": "rms", "activation": "swiglu"},
}


def made(**table) -> DecoderOnly:
    """With weights large enough that it has opinions."""
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_layers": 2, "dropout": 0.3}
    model = build_model(DecoderOnlyConfig.from_table({**sizes, **table}, vocab_size=VOCAB), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model


@pytest.fixture(params=SHAPES.values(), ids=SHAPES, scope="module")
def model(request) -> DecoderOnly:
    return made(**request.param)


def texts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]


def next_log_probs(model: DecoderOnly, context: list[int]) -> torch.Tensor:
    """Without any cache."""
    with torch.no_grad():
        return model.eval()(torch.tensor([context]))[0, -1].log_softmax(-1)


GREEDY = ContinuationSettings(temperature=0.0)


@pytest.mark.parametrize("begin_id", [BOS, None])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 33])
def test_greedy_is_the_most_probable_token_at_each_step(model, begin_id, length):
    settings = GREEDY.with_(begin=begin_id is not None)
    ids = texts(length)[0]
    [[found]] = continue_all(
        settings.strategy(), model, prompts_of([ids], begin_id=begin_id), max_new_tokens=7
    )
    context, said, log_prob = [*([] if begin_id is None else [begin_id]), *ids], [], 0.0
    banned = [0, 1, BOS, *([EOS] if begin_id is None else [])]
    for _ in range(7):
        log_probs = next_log_probs(model, context)
        allowed = log_probs.clone()
        allowed[banned] = -torch.inf
        token = int(allowed.argmax())
        log_prob += log_probs[token].item()
        if token == EOS:
            break
        said.append(token)
        context.append(token)
    assert found.ids == said
    assert found.log_prob == pytest.approx(log_prob, abs=1e-4)
    assert len(found.token_log_probs) == min(7, len(said) + 1), "what is cut off has no end"


def test_a_beam_that_holds_everything_finds_the_best(model):
    """All continuations of up to two tokens, each scored by reading it whole; two of them need no end."""
    settings = ContinuationSettings(beam_size=VOCAB**2)
    [ids] = texts(6)
    found = continue_all(settings.strategy(num=4), model, prompts_of([ids], begin_id=BOS), max_new_tokens=2)[
        0
    ]
    words = range(4, VOCAB)
    every = [(), *((word,) for word in words), *itertools.product(words, words)]
    inputs = torch.tensor([[BOS, *ids, *said, EOS, EOS, EOS][: len(ids) + 4] for said in every])
    with torch.no_grad():
        log_probs = model.eval()(inputs).log_softmax(-1)
    scored = sorted(
        (
            (
                sum(log_probs[row, len(ids) + i, token].item() for i, token in enumerate([*said, EOS][:2])),
                said,
            )
            for row, said in enumerate(every)
        ),
        reverse=True,
    )
    assert [tuple(each.ids) for each in found] == [said for _, said in scored[:4]]
    assert [each.score for each in found] == pytest.approx([score for score, _ in scored[:4]], abs=1e-4)


@pytest.mark.parametrize(
    ("model", "asked"),
    each_once(
        list(SHAPES.values()),
        [(ContinuationSettings(seed=3), BOS), (ContinuationSettings(beam_size=3), BOS), (GREEDY, None)],
    ),
    indirect=["model"],
)
def test_a_prompt_is_continued_the_same_alone_and_in_any_batch(model, asked):
    """To the bit: of the probabilities too."""
    settings, begin_id = asked
    strategy = settings.with_(begin=begin_id is not None).strategy(num=1 if settings is GREEDY else 2)
    prompts = texts(3, 33, 16, 17, 1, 31, 16)
    together = continue_all(strategy, model, prompts_of(prompts, begin_id=begin_id), max_new_tokens=5)
    for place, ids in enumerate(prompts):
        [alone] = continue_all(strategy, model, prompts_of([ids], begin_id=begin_id), max_new_tokens=5)
        assert alone == together[place]
    small = continue_all(
        strategy, model, prompts_of(prompts, begin_id=begin_id), max_new_tokens=5, batch_tokens=60
    )
    assert small == together


def test_two_samples_of_a_prompt_differ_and_two_equal_prompts_do_not(model):
    strategy = ContinuationSettings().strategy(num=2)
    [ids, other] = texts(5, 5)
    found = continue_all(strategy, model, prompts_of([ids, other, ids], begin_id=BOS), max_new_tokens=12)
    assert found[0] == found[2]
    assert found[0][0].ids != found[0][1].ids
    again = continue_all(
        ContinuationSettings(seed=1).strategy(num=2),
        model,
        prompts_of([ids], begin_id=BOS),
        max_new_tokens=12,
    )
    assert again[0] != found[0]


def test_the_first_token_follows_the_distribution_of_the_model(model):
    strategy = ContinuationSettings(temperature=0.8, top_k=5).strategy(num=4000)
    [ids] = texts(18)
    found = continue_all(strategy, model, prompts_of([ids], begin_id=BOS), max_new_tokens=1)[0]
    counts = torch.zeros(VOCAB)
    for each in found:
        counts[each.ids[0] if each.ids else EOS] += 1
    log_probs = next_log_probs(model, [BOS, *ids])
    log_probs[[0, 1, BOS]] = -torch.inf
    kept = log_probs.topk(5).indices
    expected = torch.zeros(VOCAB)
    expected[kept] = (log_probs[kept] / 0.8).softmax(-1)
    torch.testing.assert_close(counts / len(found), expected, atol=0.03, rtol=0)


@pytest.mark.parametrize("settings", [ContinuationSettings(seed=3), GREEDY], ids=["drawn", "greedy"])
@pytest.mark.parametrize("length", [0, 3, 16, 20])
def test_what_comes_token_by_token_is_what_comes_at_once(model, settings, length):
    strategy = settings.strategy()
    [prompt] = prompts_of(texts(length), begin_id=BOS)
    model.train()
    pieces = []
    for token in stream(strategy, model, prompt, max_new_tokens=10):
        assert model.training, "between two tokens the model is as it was"
        assert torch.is_grad_enabled()
        pieces.append(token)
    [[at_once]] = continue_all(strategy, model, [prompt], max_new_tokens=10)
    assert pieces == at_once.ids


def test_no_phrase_comes_twice_and_those_of_the_prompt_count():
    model = made(positions="rotary")
    [ids] = texts(30)
    strategy = GREEDY.with_(no_repeat_ngram_size=2).strategy()
    [[found]] = continue_all(strategy, model, prompts_of([ids], begin_id=BOS), max_new_tokens=60)
    pairs = list(itertools.pairwise([*ids, *found.ids]))
    ours = pairs[len(ids) - 1 :]
    assert len(ours) == len(set(ours))
    assert not set(ours) & set(pairs[: len(ids) - 1])


def test_a_model_without_marks_never_ends_a_text():
    model = made(positions="rotary")
    strategy = ContinuationSettings(begin=False).strategy(num=50)
    found = continue_all(strategy, model, prompts_of(texts(4), begin_id=None), max_new_tokens=20)[0]
    assert {len(each.ids) for each in found} == {20}
    ending = ContinuationSettings().strategy(num=50)
    found = continue_all(ending, model, prompts_of(texts(4), begin_id=BOS), max_new_tokens=20)[0]
    assert min(len(each.ids) for each in found) < 20


def test_whether_a_text_may_end_is_a_setting_of_its_own():
    model = made(positions="rotary")

    def lengths(eos_id: int = EOS, **settings: Any) -> set[int]:
        strategy = ContinuationSettings(begin=False, **settings).strategy(
            num=50, pad_id=0, unk_id=eos_id, bos_id=eos_id, eos_id=eos_id
        )
        found = continue_all(strategy, model, prompts_of(texts(4), begin_id=None), max_new_tokens=20)[0]
        return {len(each.ids) for each in found}

    assert lengths() == lengths(may_end=False) == {20}, "as one that has seen no marks"
    assert min(lengths(may_end=True)) < 20, "GPT-2: its one mark is all marks, and ends texts"
    assert min(lengths(end_ids=(7,))) < 20, "another token may end one that the mark does not"
    assert min(lengths(end_ids=(0,))) < 20, "Qwen3: what pads a batch ends a text too"


def test_what_ends_a_text_is_not_among_what_is_never_said():
    def never(**settings: Any) -> tuple[int, ...]:
        search = ContinuationSettings(temperature=0.0, **settings).strategy()
        [banned] = [rule for rule in search.rules if isinstance(rule, BannedTokens)]
        return banned.ids

    assert never() == (0, 1, 2)
    assert never(end_ids=(2,)) == (0, 1)
    assert never(begin=False) == never(may_end=False) == (0, 1, 2, 3)
    assert never(begin=False, end_ids=(0, 3)) == (1, 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_prompt_may_be_of_any_length(shape):
    model = made(**SHAPES[shape])
    [[found]] = continue_all(
        GREEDY.with_(begin=False).strategy(), model, prompts_of(texts(1100), begin_id=None), max_new_tokens=3
    )
    assert len(found.ids) == 3


def test_an_empty_prompt_needs_a_mark_that_the_model_knows():
    model = made(positions="rotary")
    [[found]] = continue_all(GREEDY.strategy(), model, prompts_of([[]], begin_id=BOS), max_new_tokens=3)
    assert found.ids
    with pytest.raises(DataError, match="prompt 8 is empty") as raised:
        prompts_of([[5], []], begin_id=None, first_number=6)
    assert raised.value.hint


def test_settings_without_a_key_keep_their_meaning():
    """generation.json holds all that differs from these."""
    named = {"max_new_tokens": 256, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "beam_size": 0}
    named |= {"no_repeat_ngram_size": 0, "seed": 0, "begin": True, "may_end": None}
    defaults = ContinuationSettings()
    assert {name: getattr(defaults, name) for name in named} == named
    strategy = defaults.strategy()
    assert (strategy.n_best, strategy.bos_id, strategy.eos_id, strategy.cut) == (1, 2, 3, True)


def test_a_search_finds_as_many_texts_as_its_beam_holds():
    assert ContinuationSettings(beam_size=4).strategy(num=4).n_best == 4
    with pytest.raises(ConfigError, match=r"num \(5\) is more than beam_size \(4\)"):
        ContinuationSettings(beam_size=4).strategy(num=5)
    with pytest.raises(ConfigError, match=r"num \(3\) is more than beam_size \(2\)"):
        ContinuationSettings(beam_size=2).strategy(num=3)
    assert GREEDY.strategy(num=1).n_best == 1
    with pytest.raises(ConfigError, match="greedy search finds one text, not num = 2"):
        GREEDY.strategy(num=2)
    assert ContinuationSettings().strategy(num=50).n_best == 50


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"no_repeat_source_ngram_size": 2}, "is for a model with a source"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"temperature": 0.0, "top_k": 5}, "top_k = 5 is for sampling, but temperature = 0"),
        ({"beam_size": 4, "top_p": 0.9}, "top_p = 0.9 is for sampling, but beam_size = 4 searches"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size is -1"),
    ],
)
def test_settings_that_cannot_work_are_refused_where_they_are_made(change, named):
    with pytest.raises(ConfigError, match=named) as raised:
        ContinuationSettings(**change)
    assert raised.value.hint or "top_p" in named


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
@pytest.mark.parametrize(
    "settings", [GREEDY, ContinuationSettings(seed=3), ContinuationSettings(beam_size=2)]
)
def test_prompts_of_all_lengths_are_continued_in_one_batch(monkeypatch, settings):
    """Also beyond the length at which more tokens of a prompt are prefilled."""
    model, rows = made(positions="rotary"), []
    strategy = settings.strategy()
    prompts = prompts_of(texts(3, 60, 17, 16, 33, 1, 15), begin_id=BOS)
    alone = [continue_all(strategy, model, [prompt], max_new_tokens=6)[0] for prompt in prompts]
    last = HypothesisRows.last
    monkeypatch.setattr(
        HypothesisRows, "last", lambda self, bos: (rows.append(len(self.ids)), last(self, bos))[1]
    )
    assert continue_all(strategy, model, prompts, max_new_tokens=6) == alone
    assert rows[0] == len(prompts)
    assert len(rows) <= 16 + 6


@pytest.mark.parametrize(
    "settings",
    [
        GREEDY,
        ContinuationSettings(seed=3),
        ContinuationSettings(beam_size=3),
        ContinuationSettings(beam_size=4, beam_groups=2, diversity=0.5),
        ContinuationSettings(temperature=0.0, prompt_lookup=3),
    ],
    ids=["greedy", "drawn", "beam", "groups", "speculative"],
)
@pytest.mark.parametrize("length", [4, 20, 33])
def test_an_end_token_within_a_prompt_ends_nothing(settings, length):
    """A chat's prompt has one after each message. The same as a model that reads another token there."""
    model = made(positions="rotary", tied=False)
    with torch.no_grad():
        model.input.embedding.weight[EOS] = model.input.embedding.weight[7]
    [plain] = texts(length)
    plain[length // 2] = plain[-1] = 7
    ended = [EOS if token == 7 else token for token in plain]
    strategy = settings.strategy()
    found = [
        continue_all(strategy, model, prompts_of([each], begin_id=BOS), max_new_tokens=6)[0]
        for each in (ended, plain)
    ]
    assert found[0][0].token_log_probs
    if settings.seed == 0:  # the noise of a sample depends on the ids of its prompt
        assert [each.ids for each in found[0]] == [each.ids for each in found[1]]
    if isinstance(strategy, DecodingLoop):
        [prompt] = prompts_of([ended], begin_id=BOS)
        assert [*stream(strategy, model, prompt, max_new_tokens=6)] == found[0][0].ids


class OneWord:
    """A tokeniser for which every text is these two tokens."""

    vocab_size = VOCAB

    def encode_words(self, text: str) -> list[list[int]]:
        return [[5, 6]]

    def decode(self, ids: Any) -> str:
        return "x"


def test_constraints_do_not_forbid_the_end_tokens_of_a_prompt():
    model = made(positions="rotary")
    [ids] = texts(20)
    ids[9] = EOS
    search = ContinuationSettings(beam_size=3, must_contain=("x",)).strategy(tokenizer=OneWord())
    [[best, *_]] = continue_all(search, model, prompts_of([ids], begin_id=BOS), max_new_tokens=6)
    assert [5, 6] in [best.ids[at : at + 2] for at in range(len(best.ids))]


@dataclass(frozen=True, kw_only=True)
class Miscounting(GreedySearch):
    """Gives an answer more, or fewer, than there are prompts."""

    more: int

    def __call__(self, stepper: Any, requests: Any) -> Any:
        return [[]] * (len(requests) + self.more)


@pytest.mark.parametrize("more", [1, -1])
def test_a_search_with_another_number_of_answers_is_an_error(more):
    prompts = prompts_of(texts(3, 3), begin_id=BOS)
    with pytest.raises(ValueError, match="argument 2 is"):
        continue_all(Miscounting(more=more), made(positions="rotary"), prompts, max_new_tokens=2)


@pytest.mark.parametrize(
    "settings",
    [
        GREEDY.with_(presence_penalty=0.5),
        ContinuationSettings(beam_size=3, frequency_penalty=0.5),
        ContinuationSettings(seed=3, repetition_penalty=1.3),
    ],
    ids=["greedy", "beam", "drawn"],
)
@pytest.mark.parametrize("length", [4, 20])
def test_where_rules_change_scores_too_a_prompt_has_probability_one(settings, length):
    """The log-probability is the model's, of the new tokens alone."""
    model, [ids] = made(positions="rotary"), texts(length)
    [[found]] = continue_all(settings.strategy(), model, prompts_of([ids], begin_id=BOS), max_new_tokens=5)
    expected, context = [], [BOS, *ids]
    for token in [*found.ids, EOS][: len(found.token_log_probs)]:
        expected.append(next_log_probs(model, context)[token].item())
        context.append(token)
    assert found.token_log_probs == pytest.approx(expected, abs=1e-4)
    assert found.log_prob == pytest.approx(sum(expected), abs=1e-4)
