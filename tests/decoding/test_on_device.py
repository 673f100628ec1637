"""How often decoding makes the processor wait for a device: a stated number of times in each step."""

import collections
import copy

import pytest

from regard.decoding.batches import decode_all
from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of
from regard.decoding.settings import GenerationSettings
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from tests.nightly import each_once
from tests.simulated_device import moved

SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.0}
SOURCES = [[5, 6, 7, 3], [8, 9, 3], [10, 3], [4, 5, 6, 3]]


@pytest.fixture(scope="module")
def translator():
    sizes = {"src_vocab_size": 30, "tgt_vocab_size": 30, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return build_model(EncoderDecoderConfig(**SMALL, **sizes), seed=0).eval()


@pytest.fixture(scope="module")
def writer():
    return build_model(DecoderOnlyConfig.from_table({**SMALL, "num_layers": 1}, vocab_size=30), seed=0).eval()


def translations(model, beam, length):
    settings = GenerationSettings(
        beam_size=beam, max_length_ratio=0.0, max_length_offset=length, max_length=length, min_length=length
    )
    strategy = settings.strategy(pad_id=0, bos_id=2, eos_id=3)
    return decode_all(strategy, model, SOURCES)


def continuations(model, beam, length):
    settings = ContinuationSettings(beam_size=beam, begin=False, max_new_tokens=length)
    prompts = prompts_of([[5, 6, 7], [8, 9, 4]], begin_id=None)
    return continue_all(settings.strategy(), model, prompts, max_new_tokens=length)


def waits_in_a_step(queued, decode, model, beam):
    """The waits of ten steps more, by kind, for one step; and the ids of the longer run."""
    model, found = moved(copy.deepcopy(model), queued.device), []
    for length in (6, 16):
        decode(model, beam, length)  # once without counting: types are checked at the first calls
        queued.waits.clear()
        hypotheses = decode(model, beam, length)
        found.append(collections.Counter(queued.waits))
    more = found[1] - found[0]
    return {kind: count / 10 for kind, count in more.items()}, hypotheses


STATED = {  # waits in a step: results that are read, copies to the device, comparisons
    ("translations", 1): (2, 2, 0),
    ("translations", 3): (2, 3, 2),
    ("continuations", 1): (2, 1, 0),
    ("continuations", 3): (2, 2, 0),
}
CASES = each_once([translations, continuations], [1, 3])
KINDS = ("aten::_to_copy from the device", "aten::_to_copy to the device", "aten::equal")


@pytest.mark.parametrize(("decode", "beam"), CASES)
def test_a_step_waits_no_more_often_than_stated(queued, translator, writer, decode, beam):
    if queued.device.type == "cuda":
        pytest.skip("counted by kind, which PyTorch's warnings do not tell")
    model = translator if decode is translations else writer
    waits, _ = waits_in_a_step(queued, decode, model, beam)
    assert set(waits) <= set(KINDS)
    found = [waits.get(kind, 0) for kind in KINDS]
    most = STATED[decode.__name__, beam]
    assert all(count <= limit for count, limit in zip(found, most, strict=True)), found


@pytest.mark.parametrize(("decode", "beam"), CASES)
def test_the_texts_are_those_of_a_cpu(device, translator, writer, decode, beam):
    model = translator if decode is translations else writer
    here = decode(copy.deepcopy(model), beam, 12)
    there = decode(moved(copy.deepcopy(model), device), beam, 12)
    assert [[each.ids for each in of_line] for of_line in there] == [
        [each.ids for each in of_line] for of_line in here
    ]


def test_a_rolling_window_runs_on_a_device(device, writer):
    model, prompts = moved(copy.deepcopy(writer), device), prompts_of([[5, 6, 7]] * 3, begin_id=None)
    settings = ContinuationSettings(beam_size=1, begin=False, max_new_tokens=20)
    found = [
        continue_all(settings.strategy(), each, prompts, max_new_tokens=20, max_context=8)
        for each in (writer, model)
    ]
    assert found[0][0][0].ids == found[1][2][0].ids
