"""A model decoded as a plain function, without its cache, gives what the model gives."""

import dataclasses
from types import SimpleNamespace

import jaxtyping
import numpy as np
import pytest
import torch

from regard.decoding import (
    BeamSearch,
    ForbiddingRule,
    GreedySearch,
    LengthLimits,
    ModuleStepper,
    Sampling,
    batches,
    decode,
    decode_all,
)
from regard.decoding.any_module import _refuse_other_logits
from regard.decoding.search_checks import check_search, refuse_other_rule
from regard.decoding.special_tokens import refuse_other_id
from regard.decoding.speculative import PromptLookup, SpeculativeDecoding
from regard.errors import ConfigError, DataError
from regard.models import EncoderDecoderConfig
from regard.models.build import build_model
from regard.models.sequence_to_sequence import SequenceToSequence

LIMITS = LengthLimits(ratio=0.0, offset=8)
SEARCHES = [
    GreedySearch(limits=LIMITS),
    BeamSearch(size=3, n_best=2, limits=LIMITS),
    Sampling(n_best=2, seed=3, limits=LIMITS),
]


@pytest.fixture(scope="module")
def model():
    config = EncoderDecoderConfig(
        src_vocab_size=12, tgt_vocab_size=12, pad_id=0, d_model=16, num_heads=2, d_ff=32,
        num_encoder_layers=1, num_decoder_layers=1,
    )  # fmt: skip
    return build_model(config, seed=2)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_a_function_is_decoded_as_the_model_itself(model, search):
    sources = [[5, 6, 7], [8, 9, 10, 11], [4]]
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor([*each, 3]) for each in sources], batch_first=True)
    lengths = torch.tensor([len(each) + 1 for each in sources])
    model.train()
    found = decode(model, ids, lengths, search)
    assert model.training  # as it was; dropout was off in between
    wanted = decode_all(search, model, sources)
    if not isinstance(search, Sampling):  # whose chance belongs to the request: the end counts in one of them
        assert [[each.ids for each in row] for row in found] == [[each.ids for each in row] for row in wanted]
        for row, other in zip(found, wanted, strict=True):
            for each, same in zip(row, other, strict=True):
                assert each.score == pytest.approx(same.score, abs=1e-5)
    assert [len(row) for row in found] == [len(row) for row in wanted]


def test_guesses_need_a_cache(model):
    search = SpeculativeDecoding.of(GreedySearch(), PromptLookup(), 2)
    with pytest.raises(ConfigError, match="cache"):
        decode(model, torch.tensor([[4, 3]]), torch.tensor([2]), search)


def test_a_module_that_is_no_model_of_regard_is_refused_by_name(model):
    class Bigram(torch.nn.Module):
        """Logits of the next id, and nothing else."""

    for wrong in (Bigram(), [model, Bigram()]):
        with pytest.raises(ConfigError, match="Bigram is no SequenceToSequence"):
            batches.ensemble_of(wrong)
    with pytest.raises(ConfigError, match="at least one model"):
        batches.ensemble_of([])
    own = type("Own", (SequenceToSequence,), dict.fromkeys(SequenceToSequence.__abstractmethods__))
    without = own()
    with pytest.raises(ConfigError, match="Own has no d_head") as error:
        decode_all(GreedySearch(), without, [[5]])
    assert "set self.config" in error.value.hint
    without.config = SimpleNamespace(d_model=16)
    assert batches.ensemble_of(without) == [without]


def settings_of(search):
    return {each.name: getattr(search, each.name) for each in dataclasses.fields(search)}


@pytest.mark.parametrize("name", ["bos_id", "eos_id"])
@pytest.mark.parametrize("value", [None, -1, "2"])
def test_special_tokens_of_a_search_are_ids(name, value):
    with pytest.raises(ConfigError, match=f"{name} = {value!r} is not the id of a token"):
        check_search(SimpleNamespace(**{**settings_of(GreedySearch()), name: value}))


def test_what_is_no_rule_is_refused_when_the_search_is_made():
    def no_five(log_probs, generated):
        log_probs[:, 5] = -torch.inf

    class NoFive(ForbiddingRule):
        def __call__(self, log_probs, generated):
            no_five(log_probs, generated)

    with pytest.raises(ConfigError, match="no_five in `rules` is not a Rule") as error:
        refuse_other_rule(no_five)
    assert "ForbiddingRule" in error.value.hint
    with pytest.raises(ConfigError, match="NoFive in `rules` is not a Rule"):
        refuse_other_rule(NoFive)
    GreedySearch(rules=(NoFive(),))
    with pytest.raises(ConfigError, match="`rules` is a single rule"):
        check_search(SimpleNamespace(**{**settings_of(GreedySearch()), "rules": NoFive()}))


def test_a_module_with_other_arguments_or_outputs_is_refused():
    ids, lengths = torch.tensor([[4, 3]]), torch.tensor([2])
    with pytest.raises(ConfigError, match=r"Linear cannot be called with \(src_ids, src_lengths, tgt_ids\)"):
        decode(torch.nn.Linear(2, 2), ids, lengths, GreedySearch())
    with pytest.raises(ConfigError, match="the function cannot be called"):
        decode(lambda tgt_ids: tgt_ids, ids, lengths, GreedySearch())
    wrong = {
        r"the shape \[1, 1\], not logits": lambda source, lengths, target: target,
        r"the shape \[1, 12\], not logits": lambda source, lengths, target: torch.zeros(1, 12),
        "a tuple, not logits": lambda source, lengths, target: (torch.zeros(1, 1, 12),),
    }
    for message, function in wrong.items():
        with pytest.raises(ConfigError, match=message):
            _refuse_other_logits(function(ids, lengths, ids[:, :1]), ids[:, :1], 1)
    with pytest.raises(ConfigError, match="the shape"):
        decode(lambda source, lengths, target: torch.zeros(1, 12), ids, lengths, GreedySearch())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_probabilities_are_refused_and_log_probabilities_are_logits(model, dtype):
    """Their softmax gave other hypotheses without a word."""
    ids, lengths = torch.tensor([[4, 5, 3], [6, 3, 0]]), torch.tensor([3, 2])

    beam = BeamSearch(size=2)

    def found(change, search=beam):
        return decode(lambda *given: change(model.eval()(*given).to(dtype)), ids, lengths, search)

    for search in (beam, GreedySearch(limits=LengthLimits(ratio=0.0, offset=1), cut=True)):
        with pytest.raises(ConfigError, match="probabilities, not logits"):
            found(lambda logits: logits.softmax(dim=-1), search)
    same, usual = found(lambda logits: logits.log_softmax(dim=-1)), found(lambda logits: logits)
    if dtype == torch.float32:
        assert [each.ids for row in same for each in row] == [each.ids for row in usual for each in row]


def test_a_module_that_copies_by_ones_and_zeros_gives_logits():
    def module(src_ids, src_lengths, tgt_ids):
        place = torch.arange(tgt_ids.size(1)).clamp(max=src_ids.size(1) - 1)
        return torch.nn.functional.one_hot(src_ids[:, place], 12).float()

    found = decode(module, torch.tensor([[4, 5, 3]]), torch.tensor([3]), GreedySearch())
    assert [*found[0][0].ids][:2] == [4, 5]


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        ([[4]], [5], r"src_lengths\[0\] is 5, but src_ids has the width 1"),
        ([[4, 5], [6, 0]], [2, -1], r"src_lengths\[1\] is -1, but src_ids has the width 2"),
        ([[4, 5], [6, -100]], [2, 2], r"src_ids\[1\] has the id -100"),
    ],
)
def test_sources_that_are_not_padded_rows_of_ids_are_refused(model, ids, lengths, message):
    with pytest.raises(ConfigError, match=message) as error:
        decode(model, ids, lengths, GreedySearch())
    assert error.value.hint


def test_other_doors_refuse_a_special_token_that_is_none():
    with pytest.raises(ConfigError, match="bos_id = None is not the id of a token"):
        refuse_other_id("bos_id", None)
    refuse_other_id("bos_id", 0)


@pytest.mark.parametrize("of", [list, np.asarray, torch.as_tensor], ids=lambda of: of.__name__)
def test_sources_are_tensors_arrays_or_lists(model, of):
    sources, lengths = [[4, 5, 3], [6, 3, 0]], [3, 2]
    found = decode(model, of(sources), of(lengths), GreedySearch())
    wanted = decode(model, torch.tensor(sources), torch.tensor(lengths), GreedySearch())
    assert [each.ids for [each] in found] == [each.ids for [each] in wanted]


@pytest.mark.parametrize("search", [GreedySearch(), BeamSearch(size=2)], ids=["greedy", "beam"])
def test_no_sources_have_no_hypotheses(model, search):
    ids = torch.ones(0, 3, dtype=torch.int64)
    assert decode(model, ids, torch.ones(0, dtype=torch.int64), search) == []
    assert decode(model, [], [], search) == []


def test_a_module_reads_a_row_of_each_hypothesis_and_no_more():
    rows = []

    def module(src_ids, src_lengths, tgt_ids):
        rows.append(len(tgt_ids))
        return torch.zeros(*tgt_ids.shape, 5)

    found = decode(module, [[0], [1], [2]], [1, 0, 1], GreedySearch(limits=LIMITS))
    assert len(found) == 3
    assert {*rows} == {3}


def test_a_stepper_of_a_function_takes_any_number_of_logits():
    stepper = ModuleStepper(lambda source, lengths, target: torch.zeros(*target.shape, 1))
    stepper.start(torch.tensor([[1]]), torch.tensor([1]))
    assert stepper.step(torch.tensor([0])).tolist() == [[0.0]]


def test_logits_must_include_the_end():
    with pytest.raises(ConfigError, match="gives 2 logits, none for the end, eos_id = 3"):
        decode(lambda source, lengths, target: torch.zeros(*target.shape, 2), [[1]], [1], GreedySearch())
    only_read = GreedySearch(bos_id=9)  # the beginning needs no logit
    assert (
        len(decode(lambda source, lengths, target: torch.zeros(*target.shape, 4), [[1]], [1], only_read)) == 1
    )


@pytest.mark.parametrize("wrong", [-1, 12])
def test_an_id_beyond_the_vocabulary_is_named(model, wrong):
    with pytest.raises(DataError, match=f"sentence 2 has the id {wrong}, which is not in") as raised:
        decode_all(GreedySearch(), model, [[0, 11], [0, 11, wrong]])
    assert raised.value.hint == "ids are from 0 to 11"
    with pytest.raises(DataError, match=f"sentence 1 has the id {wrong}, which is not in"):
        decode_all(GreedySearch(), model, [[4, 5]], prefixes=[[wrong]])


@pytest.mark.parametrize(
    ("sources", "lengths", "message"),
    [
        ([[5.7, 6.2]], [2], "src_ids has dtype torch.float32"),
        ([[4, 5], [4]], [2, 1], "src_ids cannot be a tensor"),
        ([4, 5], [2], r"src_ids has dtype torch.int64 and shape \[2\]"),
        ([[4, 5]], [2, 2], "1 sources have 2 lengths"),
    ],
)
def test_sources_that_are_no_padded_rows_are_refused(model, sources, lengths, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse some first
    with pytest.raises(ConfigError, match=message):
        decode(model, sources, lengths, GreedySearch())
