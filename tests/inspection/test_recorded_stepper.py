"""In a beam each hypothesis has its own picture: the one that reading it at once gives."""

import pytest
import torch

from regard.decoding.hypothesis import Request
from regard.decoding.rules import LengthLimits
from regard.decoding.search import BeamSearch
from regard.decoding.step import stepper_of
from regard.errors import ConfigError
from regard.inspection.record import blocks, record_model
from regard.inspection.recorded_stepper import recording_stepper
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig

SRC, LENGTHS = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
BOS = 2


def translator(**options):
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, "d_model": 16, "num_heads": 4, "d_ff": 32}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2}
    return loud(build_model(EncoderDecoderConfig(**sizes, **layers, **options), seed=2))


def recurrent():
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, "d_model": 16, "d_embedding": 8}
    return loud(build_model(RecurrentConfig(**sizes, attention="additive"), seed=2))


def loud(model):
    """Or all tokens are all but equally likely."""
    for parameter in model.parameters():
        parameter.data *= 2.0
    return model.eval()


MODELS = {
    "sinusoidal": lambda: translator(),
    "rotary": lambda: translator(positions="rotary", num_kv_heads=2),
    "T5": lambda: translator(positions="t5"),
    "recurrent": recurrent,
}
SEARCH = BeamSearch(size=4, n_best=4, limits=LengthLimits(ratio=0.0, offset=6))
REQUESTS = [Request(src_len=3, index=0), Request(src_len=1, index=1)]


@torch.no_grad()
def searched(model, **wanted):
    with record_model(model, **wanted) as recording:
        stepper = recording_stepper(stepper_of([model]), recording)
        stepper.start(SRC, LENGTHS)
        return SEARCH(stepper, REQUESTS), recording, stepper


@torch.no_grad()
def at_once(model, sentence, read, **wanted):
    with record_model(model, **wanted) as recording:
        model(SRC[[sentence]], LENGTHS[[sentence]], torch.tensor([read]))
    return recording


@pytest.mark.parametrize("kind", MODELS)
def test_each_hypothesis_has_the_picture_of_reading_it_at_once(kind):
    model = MODELS[kind]()
    wanted = {"logits": True, "hidden": [name for name in blocks(model) if name.startswith("decoder.blocks")]}
    found, recording, stepper = searched(model, **wanted)
    assert all(len(hypotheses) == 4 for hypotheses in found)
    for sentence, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            read = [BOS, *hypothesis.ids]
            row_position = stepper.row_position(read, sentence)
            same(recording, at_once(model, sentence, read, **wanted), row_position)


@pytest.mark.parametrize("kind", ["sinusoidal", "recurrent"])
def test_hypotheses_that_were_dropped_have_theirs_too(kind):
    model = MODELS[kind]()
    found, recording, stepper = searched(model)
    ended = {tuple(hypothesis.ids) for hypotheses in found for hypothesis in hypotheses}
    dropped = 0
    for length in (2, 3, 4):
        for sentence, read in beginnings(recording, stepper, length):
            dropped += not any(ids[: length - 1] == tuple(read[1:]) for ids in ended)
            same(recording, at_once(model, sentence, read), stepper.row_position(read, sentence))
    assert dropped > 0


def beginnings(recording, stepper, length):
    """The sentence of each row of a step, and what it has read."""
    time, last = stepper.step_ids[length - 1]
    rows = torch.arange(len(last))
    read = [
        step_ids[recording.rows_at(rows, time, when)].tolist() for when, step_ids in stepper.step_ids[:length]
    ]
    return zip(recording.rows_at(rows, time, 0).tolist(), map(list, zip(*read, strict=True)), strict=True)


def same(recording, expected, row_position):
    for name in expected.heads:
        torch.testing.assert_close(recording.weights(name, row_position), expected.weights(name))
    for name in expected.outputs_by_module:
        part = expected.logits() if name == "logits" else expected.hidden(name)
        ours = recording.logits(row_position) if name == "logits" else recording.hidden(name, row_position)
        torch.testing.assert_close(ours, part, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_a_search_that_is_followed_finds_the_same(kind):
    model = MODELS[kind]()
    found, *_ = searched(model)
    stepper = stepper_of([model])
    with torch.no_grad():
        stepper.start(SRC, LENGTHS)
        alone = SEARCH(stepper, REQUESTS)
    for ours, theirs in zip(found, alone, strict=True):
        assert [each.ids for each in ours] == [each.ids for each in theirs]
        assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs], rel=1e-5)


def test_a_second_search_clears_the_recording():
    model = translator()
    with torch.no_grad(), record_model(model) as recording:
        stepper = recording_stepper(stepper_of([model]), recording)
        for _ in range(2):
            stepper.start(SRC, LENGTHS)
            found = SEARCH(stepper, REQUESTS)
    read = [BOS, *found[0][0].ids]
    same(recording, at_once(model, 0, read), stepper.row_position(read))


def test_ids_that_no_hypothesis_has_read_have_no_row():
    *_, stepper = searched(translator())
    for read in ([], [BOS] * 3, [BOS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]):
        with pytest.raises(ConfigError, match="no hypothesis has read"):
            stepper.row_position(read)
