"""Proposals change how many tokens are read at once, but not the output."""

from collections import Counter

import pytest
import torch

from regard.decoding.batches import decode_all
from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of, stream
from regard.decoding.hypothesis import Power, Request
from regard.decoding.penalties import RepetitionPenalty
from regard.decoding.prompt_stepper import PromptStepper
from regard.decoding.rules import BannedTokens, LengthLimits, NoRepeatNGrams
from regard.decoding.sampling import Sampling, Temperature
from regard.decoding.search import GreedySearch
from regard.decoding.speculative import DraftModel, PromptLookup, SpeculativeDecoding
from regard.decoding.step import ModelStepper
from regard.errors import ConfigError
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from tests.nightly import each_once

VOCAB, BOS, EOS = 24, 2, 3
SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 32}


def stirred(config, seed):
    """A model with opinions; a seed near another gives a model that is like it."""
    model = build_model(config, seed=0)
    first, second = (torch.Generator().manual_seed(number) for number in (1, 100 + seed))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=first)
            parameter += 0.05 * seed * torch.randn(parameter.shape, generator=second)
    return model.eval()


def continuing(seed=0, **table):
    return stirred(DecoderOnlyConfig.from_table({**SMALL, "num_layers": 1, **table}, vocab_size=VOCAB), seed)


def translating(seed=0, **more):
    table = {**SMALL, "num_encoder_layers": 1, "num_decoder_layers": 1, **more}
    config = EncoderDecoderConfig.from_table(table, src_vocab_size=VOCAB, tgt_vocab_size=VOCAB)
    return stirred(config, seed)


def sentences(*lengths):
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]


def same(found, expected):
    """The products of several positions at once may differ in their last bits."""
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.ids for each in ours] == [each.ids for each in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-3)


COMMON = {"rules": (BannedTokens(ids=(0, 1, 2)),), "length_penalty": Power(alpha=1.0)}
WALKS = {
    "greedy": GreedySearch(**COMMON),
    "penalised": GreedySearch(
        rules=(RepetitionPenalty(penalty=1.3), BannedTokens(ids=(0, 1)), NoRepeatNGrams(size=2))
    ),
    "drawn": Sampling(seed=4, n_best=2, filters=(Temperature(temperature=0.7),), **COMMON),
}


def guessing(loop, drafter, tokens=4):
    return SpeculativeDecoding.of(loop, drafter, tokens)


@pytest.mark.parametrize(
    ("name", "begin_id", "drafter"), each_once(list(WALKS), [BOS, None], ["lookup", "draft", "itself"])
)
def test_a_text_is_continued_as_without_proposals(name, begin_id, drafter):
    model, loop = continuing(positions="rotary"), WALKS[name]
    begin = [] if begin_id is None else [begin_id]
    guess = (
        PromptLookup()
        if drafter == "lookup"
        else DraftModel(PromptStepper(continuing(0 if drafter == "itself" else 1, positions="rotary")), begin)
    )
    prompts = prompts_of(sentences(3, 18, 1, 33), begin_id=begin_id)
    loop = type(loop)(**{**vars(loop), "limits": LengthLimits(offset=2**40, most=2**40)})
    with torch.no_grad():
        expected = continue_all(loop, model, prompts, max_new_tokens=14)
        same(continue_all(guessing(loop, guess), model, prompts, max_new_tokens=14), expected)


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("drafter", ["lookup", "draft"])
def test_a_sentence_is_translated_as_without_guesses(name, drafter):
    model, loop = translating(), WALKS[name]
    guess = PromptLookup() if drafter == "lookup" else DraftModel(ModelStepper(translating(1)), [BOS])
    loop = type(loop)(**{**vars(loop), "limits": LengthLimits(offset=8)})
    sources = sentences(5, 0, 12, 9)
    prefixes = [(), (), (5, 6), (7,)]
    expected = decode_all(loop, model, sources, prefixes=prefixes)
    same(decode_all(guessing(loop, guess), model, sources, prefixes=prefixes), expected)


def test_right_guesses_are_read_at_once_and_come_one_by_one():
    model = continuing(positions="rotary")
    loop = GreedySearch(
        limits=LengthLimits(offset=2**40, most=2**40), rules=(BannedTokens(ids=(0, 1, 2, EOS)),)
    )
    [prompt] = prompts_of(sentences(3), begin_id=BOS)
    looks = []
    states = model.states
    model.states = lambda *given, **more: (looks.append(given[0].shape[1]), states(*given, **more))[1]
    itself = DraftModel(PromptStepper(continuing(positions="rotary")), [BOS])
    with torch.no_grad():
        [[expected]] = continue_all(loop, model, [prompt], max_new_tokens=20)
        looks.clear()
        assert list(stream(guessing(loop, itself), model, prompt, max_new_tokens=20)) == expected.ids
    assert len(looks) <= 6, "20 tokens and the beginning, five at once"
    assert max(looks) == 5


@pytest.mark.parametrize("name", ["greedy", "drawn"])
def test_the_model_itself_proposes_what_it_says_and_reads_each_token_once(name):
    """With the same rules and the same noise; a proposal that is right is not read again."""
    model, itself = continuing(positions="rotary"), PromptStepper(continuing(positions="rotary"))
    loop = WALKS[name]
    loop = type(loop)(
        **{
            **vars(loop),
            "n_best": 1,
            "limits": LengthLimits(offset=2**40, most=2**40),
            "rules": (BannedTokens(ids=(0, 1, 2, EOS)),),
        }
    )
    [prompt] = prompts_of(sentences(3), begin_id=BOS)
    proposed, read = [], []
    draft = DraftModel(itself, [BOS])
    propose, stepper_read = draft.propose, itself.read

    def recorded(generated, count):
        found = propose(generated, count)
        proposed.append((len(generated), found))
        return found

    draft.propose = recorded
    itself.read = lambda ids: (read.append(ids.shape[1]), stepper_read(ids))[1]
    with torch.no_grad():
        [[found]] = continue_all(guessing(loop, draft), model, [prompt], max_new_tokens=20)
    text = [*prompt.ids, *found.ids]
    for length, tokens in proposed:
        right = text[length : length + len(tokens)]
        assert tokens[: len(right)] == right
        assert len(tokens) == 4
    assert sum(read) <= 1 + len(text), "the beginning and the text"


def test_a_sentence_is_translated_up_to_the_last_position_of_both_models():
    """Neither is asked for what is after it."""
    table = {"positions": "learned", "max_positions": 16}
    loop = GreedySearch(limits=LengthLimits(offset=99), rules=(BannedTokens(ids=(0, 1, 2, EOS)),))
    [[expected]] = decode_all(loop, translating(**table), sentences(9))
    assert len(expected.ids) == 15
    draft = DraftModel(ModelStepper(translating(**table)), [BOS])
    same(decode_all(guessing(loop, draft), translating(**table), sentences(9)), [[expected]])


@pytest.mark.parametrize("length", [9, 1])
def test_a_draft_model_with_the_same_weights_proposes_the_translation_of_the_source(length):
    [source] = sentences(length)
    loop = GreedySearch(limits=LengthLimits(ratio=0.0, offset=6), rules=(BannedTokens(ids=(0, 1, 2, EOS)),))
    [[expected]] = decode_all(loop, translating(), [source])
    draft = DraftModel(ModelStepper(translating()), [BOS])
    draft.begin(loop, Request(src_len=length, source=tuple(source)), 0)
    with torch.no_grad():
        assert draft.propose([], 6) == expected.ids


class Spelling:
    """A table that has one text."""

    def __init__(self, *ids):
        self.ids = ids

    def log_probs(self, source, said):
        return torch.eye(VOCAB)[self.ids[len(said) - 1]].log()


@pytest.mark.parametrize("end", [EOS, 7])
def test_a_draft_model_proposes_nothing_after_an_end(end):
    draft = DraftModel(TableReader(Spelling(5, 6, end)), [BOS])
    draft.begin(GreedySearch(ends=(7,)), Request(src_len=0), 0)
    for text in ([], [5], [5, 6]):
        assert [*text, *draft.propose(text, 4)] == [5, 6]


class TableReader:
    """A table that reads several tokens at once, and takes them back."""

    def __init__(self, table):
        self.table, self.said = table, ()

    @property
    def length(self):
        return len(self.said)

    def start(self, src_ids, src_lengths):
        self.source, self.said = tuple(src_ids[0, : int(src_lengths[0])].tolist()), ()

    def read(self, ids):
        rows = []
        for token in ids[0].tolist():
            self.said = (*self.said, token)
            rows.append(self.table.log_probs(self.source, self.said))
        return torch.stack(rows)

    def cut(self, length):
        self.said = self.said[:length]

    def step(self, ids):
        return self.read(ids[:1, None])

    def select(self, rows):
        assert not len(rows) or rows.tolist() == [0] * len(rows)


@pytest.mark.parametrize("drafter", ["lookup", pytest.param("draft", marks=pytest.mark.nightly)])
def test_what_is_drawn_with_guesses_has_the_model_s_distribution(make_table, drafter):
    """By chi-square, of all texts of two tokens."""
    table, count = make_table(vocab=6), 2500
    loop = Sampling(
        n_best=count, limits=LengthLimits(ratio=0.0, offset=2), rules=(BannedTokens(ids=(0, 2)),), seed=3
    )
    guess = (
        PromptLookup() if drafter == "lookup" else DraftModel(TableReader(make_table(vocab=6, seed=9)), [BOS])
    )
    reader = TableReader(table)
    reader.start(torch.tensor([[4, 5]]), torch.tensor([2]))
    found = guessing(loop, guess)(reader, [Request(src_len=2, source=(4, 5))])[0]
    counts = Counter(tuple(each.ids) for each in found)

    def next_of(said):
        log_probs = table.log_probs((4, 5), (2, *said)).clone()
        log_probs[[0, 2]] = -torch.inf
        return log_probs.softmax(0).tolist()

    expected = {(): next_of(())[EOS]}
    for first in (1, 4, 5):
        expected[(first,)] = next_of(())[first] * next_of((first,))[EOS]
        for second in (1, 4, 5):
            expected[(first, second)] = next_of(())[first] * next_of((first,))[second]
    assert sum(expected.values()) == pytest.approx(1, abs=1e-5)
    chi_square = sum((counts[ids] - count * p) ** 2 / (count * p) for ids, p in expected.items())
    freedom = len(expected) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5


def test_prompt_lookup_proposes_from_the_latest_and_longest_match():
    lookup = PromptLookup()
    lookup.begin(WALKS["greedy"], Request(src_len=3, source=(9, 8, 7)), 0)
    assert lookup.propose([5, 6, 7, 5, 6, 8, 1, 5, 6], 2) == [8, 1]
    assert lookup.propose([7, 5, 6, 9, 5, 6, 8, 7, 5, 6], 3) == [9, 5, 6]
    assert lookup.propose([4, 9], 2) == [8, 7]
    assert lookup.propose([4, 3], 2) == lookup.propose([], 2) == []
    lookup.begin(WALKS["greedy"], Request(src_len=0), 0)
    assert lookup.propose([5, 6, 1, 5], 2) == [6, 1], "the beginning counts"
    assert lookup.propose([5, 5], 3) == [5]
    assert lookup.propose([5], 3) == lookup.propose([], 3) == []
    assert lookup.propose([1, 2, 3, 4, 9, 8, 2, 3, 4], 2) == [9, 8]
    assert lookup.propose([7, 2, 3, 4, 9, 6, 1, 2, 3, 4], 1) == [9], "three tokens are looked up at most"


def test_after_each_step_a_row_has_its_tokens_with_their_log_probabilities():
    """A stream shows them."""
    limits, rules = LengthLimits(ratio=0.0, offset=6), (BannedTokens(ids=(0, 1, 2, EOS)),)
    search, found = guessing(GreedySearch(limits=limits, rules=rules), PromptLookup()), {}
    stepper = ModelStepper(translating())
    with torch.no_grad():
        stepper.start(torch.tensor([[5, 6, EOS]]), torch.tensor([3]))
        steps = search.steps(stepper, [Request(src_len=2, source=(5, 6))], [found])
        shown = [rows.taken(0, 0) for rows in steps]
    assert len(shown) == 6
    for number, taken in enumerate(shown, start=1):
        assert [each.token for each in taken] == found[0].ids[:number]
        assert [each.log_prob for each in taken] == found[0].token_log_probs[:number]


def test_at_least_one_token_is_proposed():
    with pytest.raises(ConfigError, match="0 tokens are to be proposed"):
        guessing(WALKS["greedy"], PromptLookup(), 0)
    assert guessing(WALKS["greedy"], PromptLookup(), 1).tokens == 1
    assert SpeculativeDecoding(loop=WALKS["greedy"], drafter=PromptLookup()).tokens == 5


def test_its_settings_are_checked_as_those_of_any_search():
    with pytest.raises(ConfigError, match="n_best is 0"):
        SpeculativeDecoding(loop=WALKS["greedy"], drafter=PromptLookup(), n_best=0)


def test_what_cannot_take_back_is_refused():
    table = {"preset": "rnn", "d_model": 16, "d_embedding": 8}
    rnn = stirred(RecurrentConfig.from_table(table, src_vocab_size=VOCAB, tgt_vocab_size=VOCAB), 0)
    wrong = guessing(GreedySearch(rules=COMMON["rules"]), PromptLookup())
    with pytest.raises(ConfigError, match="cannot take back"):
        decode_all(wrong, rnn, sentences(12), prefixes=[[5, 6, 7, 5, 6]])
    with pytest.raises(ConfigError, match="ensemble"):
        decode_all(wrong, [translating(), translating(1)], sentences(4))


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi", "t5"])
@pytest.mark.parametrize("window", [None, 4])
def test_what_is_taken_back_was_never_read(positions, window):
    model = continuing(
        positions=positions, window=window, **({"max_positions": 40} if positions == "learned" else {})
    )
    ids = torch.tensor(sentences(30))
    with torch.no_grad():
        cache = model.start()
        model.extend(ids[:, :9], cache)
        model.extend(ids[:, 20:26], cache)
        cache.cut(11)
        rest = model.extend(ids[:, 10:14], cache)
        whole = torch.cat((ids[:, :9], ids[:, 20:22], ids[:, 10:14]), dim=1)
        torch.testing.assert_close(rest, model(whole)[:, 11:], atol=1e-5, rtol=1e-5)
        with pytest.raises(ValueError, match="cannot be cut"):
            cache.cut(99)


def test_settings_that_ask_for_guesses_get_them():
    search = ContinuationSettings(prompt_lookup=3).strategy(num=2)
    assert isinstance(search, SpeculativeDecoding)
    assert (search.tokens, search.n_best, search.alone) == (3, 2, True)


def test_a_draft_model_that_is_asked_again_proposes_the_same():
    """It keeps what it has read but for the last token of the text, whose continuation it needs."""
    loop = GreedySearch(
        limits=LengthLimits(offset=2**40, most=2**40), rules=(BannedTokens(ids=(0, 1, 2, EOS)),)
    )
    [text], read = sentences(6), []

    def begun():
        draft = DraftModel(PromptStepper(continuing(positions="rotary")), [BOS])
        draft.begin(loop, Request(src_len=0), 0)
        stepper_read = draft.stepper.read
        draft.stepper.read = lambda ids: (read.append(ids.shape[1]), stepper_read(ids))[1]
        return draft

    draft = begun()
    with torch.no_grad():
        first = draft.propose(text, 4)
        assert len(first) == 4
        read.clear()
        assert draft.propose(text, 4) == first
        assert read == [1] * 4, "the last token of the text, and three proposals"
        assert draft.propose(text[:4], 4) == begun().propose(text[:4], 4)
