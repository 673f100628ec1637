"""A model sees no more tokens at once than it was trained on, whatever is generated, and however."""

import random
from collections.abc import Iterable

import pytest
import torch

from regard.decoding import sampling
from regard.decoding import search as searches
from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of, stream
from regard.decoding.prompt_stepper import PromptStepper, RollingStepper, prompt_stepper
from regard.decoding.rolling_window import RollingWindow, TokenHistory
from regard.decoding.settings import GenerationSettings
from regard.decoding.speculative import DraftModel, SpeculativeDecoding
from regard.errors import ConfigError
from regard.fast.decoding_step import fast_step, why_plain
from regard.fast.native import kernels
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from tests.nightly import each_once

VOCAB, BOS, EOS = 24, 2, 3
SHAPES = {
    "rotary": {"positions": "rotary", "num_kv_heads": 2},
    "learned": {"max_positions": 80},
    "windowed": {"positions": "rotary", "window": 6},
    "alibi": {"positions": "alibi"},
}
SIZES = [7, 32]  # the half of one is a multiple of 16


def made(seed: int = 0, **table) -> DecoderOnly:
    """With weights large enough that it has opinions."""
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_layers": 2, "dropout": 0.3}
    model = build_model(DecoderOnlyConfig.from_table({**sizes, **table}, vocab_size=VOCAB), seed=0)
    generator, other = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
            parameter += 0.05 * seed * torch.randn(parameter.shape, generator=other)
    return model.eval()


@pytest.fixture(params=SHAPES.values(), ids=SHAPES, scope="module")
def shape(request) -> dict:
    return request.param


def texts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]


def log_probs_after(model: DecoderOnly, text: list[int], window: RollingWindow) -> torch.Tensor:
    """The plain twin: what follows a text, of which only the end is read, without any cache."""
    with torch.no_grad():
        seen = text[window.start(len(text) - 1) :]
        assert len(seen) <= window.size
        return model(torch.tensor([seen]))[0, -1].log_softmax(-1)


GREEDY = ContinuationSettings(temperature=0.0, begin=False)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 64])
def test_a_window_is_never_more_than_its_size_nor_less_than_half_of_it(size):
    window = RollingWindow(size)
    for position in range(5 * size):
        first = window.start(position)
        seen = position - first + 1
        assert seen <= size
        assert first == 0 or seen > size // 2
        assert first >= window.start(max(0, position - 1)), "it moves forward only"
    positions = torch.arange(5 * size)
    assert window.starts(positions).tolist() == [*map(window.start, positions.tolist())]


@pytest.mark.parametrize("seed", range(4))
def test_a_history_has_the_tokens_of_each_row_whatever_joins_and_leaves(seed):
    random_ = random.Random(seed)

    def drawn(rows, length):
        return [[random_.randrange(VOCAB) for _ in range(length)] for _ in range(rows)]

    texts = drawn(3, 2)
    history = TokenHistory(torch.tensor(texts))
    for _ in range(12):
        new = drawn(len(texts), random_.randrange(1, 4))
        history.append(torch.tensor(new))
        texts = [text + more for text, more in zip(texts, new, strict=True)]
        order = [random_.randrange(len(texts)) for _ in range(random_.randrange(1, 6))]
        history.select(torch.tensor(order))
        texts = [texts[row] for row in order]
        joining = drawn(2, random_.randrange(40))
        history.join(TokenHistory(torch.tensor(joining, dtype=torch.int64)))
        texts += joining
        if random_.random() < 0.3:
            least = min(map(len, texts))
            history.cut(least)
            texts = [text[:least] for text in texts]
        assert history.length == max(map(len, texts))
        assert history.lengths.tolist() == [*map(len, texts)]
        for row, text in enumerate(texts):
            assert history.of(torch.tensor([row]), 0, len(text)).tolist() == [text]


@pytest.mark.parametrize("size", [-3, -1])
def test_a_context_without_a_token_is_refused(size):
    prompts = prompts_of(texts(3), begin_id=None)
    with pytest.raises(ConfigError, match=f"{size} tokens"):
        continue_all(GREEDY.strategy(), made(positions="rotary"), prompts, max_new_tokens=4, max_context=size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", [1, 50])
def test_each_token_is_the_most_probable_one_after_its_window_without_a_cache(shape, size, length):
    model = made(trained_length=size, **shape)
    [text] = texts(length)
    new = size + size // 2 + 3
    [[found]] = continue_all(GREEDY.strategy(), model, prompts_of([text], begin_id=None), max_new_tokens=new)
    assert len(found.ids) == new
    for token, log_prob in zip(found.ids, found.token_log_probs, strict=True):
        log_probs = log_probs_after(model, text, RollingWindow(size))
        log_probs[: EOS + 1] = -torch.inf
        assert token == int(log_probs.argmax())
        assert log_prob == pytest.approx(log_probs[token].item(), abs=1e-4)
        text.append(token)


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["rotary", "learned", "windowed"])
@pytest.mark.parametrize(
    "settings",
    [GREEDY, ContinuationSettings(beam_size=3, begin=False), ContinuationSettings(seed=3, begin=False)],
    ids=["greedy", "beam", "sampled"],
)
def test_several_steps_at_once_are_those_one_by_one(monkeypatch, kind, size, settings):
    """To the bit, while windows move; prompts of two lengths are in windows of their own."""
    model, taken, run = made(trained_length=size, **SHAPES[kind]), [0], RollingStepper.run_steps

    def counted(stepper, state, steps):
        found = run(stepper, state, steps)
        assert found is None or found.tokens.size(1) or settings is not GREEDY, "a full window moves first"
        taken[0] += 0 if found is None else found.tokens.size(1)
        return found

    monkeypatch.setattr(RollingStepper, "run_steps", counted)
    prompts = prompts_of(texts(size + 3, 2), begin_id=None)
    asked = [*([each] for each in prompts), *([prompts] if settings is GREEDY else [])]
    at_once = [continue_all(settings.strategy(), model, each, max_new_tokens=3 * size) for each in asked]
    assert taken[0] > len(asked) * size
    for module in (searches, sampling):
        monkeypatch.setattr(module, "run_steps", lambda *given, **options: [])
    assert [
        continue_all(settings.strategy(), model, each, max_new_tokens=3 * size) for each in asked
    ] == at_once


class OneWord:
    """A tokeniser that knows one word of two tokens."""

    vocab_size = VOCAB

    def encode_words(self, text: str) -> list[list[int]]:
        return [[10, 11]]

    def decode(self, ids: Iterable[int]) -> str:
        return ""


@pytest.mark.parametrize(
    "settings",
    [
        ContinuationSettings(beam_size=3),
        ContinuationSettings(beam_size=4, must_contain=("ab",)),
        ContinuationSettings(beam_size=4, beam_groups=2, diversity=0.5),
        ContinuationSettings(seed=3),
    ],
    ids=["beam", "constrained", "diverse", "drawn"],
)
def test_every_search_scores_its_texts_as_the_window_does(settings):
    size, model = 32, made(positions="rotary", trained_length=32)
    search = settings.strategy(num=2, tokenizer=OneWord())
    for prompt, found in zip(
        texts(5, 40),
        continue_all(search, model, prompts_of(texts(5, 40), begin_id=BOS), max_new_tokens=50),
        strict=True,
    ):
        assert len(found) == 2
        for each in found:
            text = [BOS, *prompt]
            for token, log_prob in zip([*each.ids, EOS], each.token_log_probs, strict=False):
                expected = log_probs_after(model, text, RollingWindow(size))[token].item()
                assert log_prob == pytest.approx(expected, abs=1e-4)
                text.append(token)


@pytest.mark.parametrize(
    ("shape", "size", "settings"),
    each_once(
        list(SHAPES.values()),
        SIZES,
        [ContinuationSettings(seed=3), ContinuationSettings(beam_size=3), GREEDY],
    ),
    indirect=["shape"],
)
def test_a_text_is_the_same_alone_and_in_any_batch(shape, size, settings):
    """To the bit: of the probabilities too."""
    model, begin_id = made(trained_length=size, **shape), BOS if settings.begin else None
    strategy = settings.strategy(num=1 if settings is GREEDY else 2)
    prompts = texts(3, 33)
    together = continue_all(strategy, model, prompts_of(prompts, begin_id=begin_id), max_new_tokens=30)
    for place, ids in enumerate(prompts):
        [alone] = continue_all(strategy, model, prompts_of([ids], begin_id=begin_id), max_new_tokens=30)
        assert alone == together[place]


@pytest.mark.parametrize("settings", [ContinuationSettings(seed=3, begin=False), GREEDY])
@pytest.mark.parametrize("length", [3, 50])
def test_what_comes_token_by_token_is_what_comes_at_once(shape, settings, length):
    model, strategy = made(trained_length=20, **shape), settings.strategy()
    [prompt] = prompts_of(texts(length), begin_id=None)
    [[at_once]] = continue_all(strategy, model, [prompt], max_new_tokens=30)
    assert len(at_once.ids) == 30
    assert list(stream(strategy, model, prompt, max_new_tokens=30)) == at_once.ids


@pytest.mark.parametrize("sizes", [(20, 9), (9, None)])
@pytest.mark.parametrize("settings", [ContinuationSettings(seed=3, begin=False), GREEDY])
def test_guesses_change_nothing(sizes, settings):
    """Those of a draft model, which has a window of its own, and those looked up."""
    size, of_draft = sizes
    model = made(positions="rotary", trained_length=size)
    draft = made(1, positions="rotary", trained_length=of_draft)
    num = 1 if settings is GREEDY else 2
    plain = settings.strategy(num=num)
    prompts = prompts_of(texts(18), begin_id=None)
    expected = continue_all(plain, model, prompts, max_new_tokens=16)
    guessing = (
        SpeculativeDecoding.of(plain, DraftModel(prompt_stepper(draft), []), 4),
        settings.with_(prompt_lookup=4).strategy(num=num),
    )
    for strategy in guessing:
        found = continue_all(strategy, model, prompts, max_new_tokens=16)
        assert [[each.ids for each in one] for one in found] == [[e.ids for e in one] for one in expected]


def test_how_much_is_seen_is_a_setting():
    model, prompts = made(positions="rotary", trained_length=20), prompts_of(texts(33), begin_id=None)
    other = made(positions="rotary", trained_length=9)
    endless = made(positions="rotary")

    def said(model: DecoderOnly, max_context: int | None = None) -> list[int]:
        strategy = GREEDY.strategy()
        [[found]] = continue_all(strategy, model, prompts, max_new_tokens=40, max_context=max_context)
        return found.ids

    assert said(model, 9) == said(other) != said(model)
    assert said(model, 0) == said(endless) == said(other, 0)
    assert said(made(max_positions=20), 0) == said(made(max_positions=20)), "more positions were not learned"


def test_the_fast_steps_are_taken_in_each_window(monkeypatch):
    model = made(positions="rotary", trained_length=32)
    [prompt] = prompts_of(texts(5), begin_id=None)
    read, filled = [], PromptStepper.filled
    # not the model's own methods: with another `states` it would take the plain form
    monkeypatch.setattr(
        PromptStepper,
        "filled",
        lambda self, ids, *first: (read.append(ids.shape), filled(self, ids, *first))[1],
    )
    if kernels.available():
        assert fast_step(model) is not None, why_plain(model)
    continue_all(GREEDY.strategy(), model, [prompt], max_new_tokens=100)
    assert [tuple(each) for each in read] == [(1, 16)] * 5, "all but half a window at a time, once a half"


def test_a_prompt_is_read_once_for_all_its_samples(monkeypatch):
    rows, filled = [], PromptStepper.filled
    monkeypatch.setattr(
        PromptStepper,
        "filled",
        lambda self, ids, *first: (rows.append(len(ids)), filled(self, ids, *first))[1],
    )
    settings, prompts = ContinuationSettings(seed=3, begin=False), prompts_of(texts(20), begin_id=None)
    continue_all(settings.strategy(num=3), made(trained_length=32), prompts, max_new_tokens=2)
    assert rows == [1]


def test_a_model_with_a_source_has_no_such_window():
    with pytest.raises(ConfigError, match="max_context = 5 is for a language model") as raised:
        GenerationSettings(max_context=5)
    assert raised.value.hint
