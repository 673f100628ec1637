"""What is off is really off, in a pass and in decoding; what is taken back leaves no trace."""

import pytest
import torch

from regard.decoding.batches import decode_all
from regard.decoding.continuation import continue_all, prompts_of
from regard.decoding.rules import LengthLimits
from regard.decoding.search import GreedySearch
from regard.errors import ConfigError
from regard.fast.decoding_step import fast_step
from regard.inspection import passes
from regard.inspection.ablation import Ablation, ablate, ablated, ablations, layer_names
from regard.inspection.passes import attention_sites
from regard.inspection.record import record_model
from regard.inspection.switches import SUBLAYER_NAMES, _refuse_unknown

MODELS = [
    ("encoder_decoder", {}),
    ("encoder_decoder", {"norm_position": "pre", "num_kv_heads": 2, "positions": "t5"}),
    ("encoder_decoder", {"norm_position": "sandwich", "norm": "rms"}),
    ("decoder_only", {}),
    ("decoder_only", {"window": 3, "positions": "rotary"}),
    ("decoder_only", {"parallel_residual": "two_norms"}),
    ("decoder_only", {"norm_position": "reordered", "attention_softcap": 2.0}),
    ("encoder_only", {}),
    ("encoder_only", {"head": "classification", "num_labels": 3, "pooling": "mean"}),
    ("encoder_only", {"head": "classification", "num_labels": 3, "pooling": "max"}),
    ("encoder_only", {"head": "tokens", "num_labels": 3, "input_convolution": 3}),
    ("encoder_only", {"head": "spans"}),
    ("recurrent", {}),
    ("recurrent", {"attention": "general", "input_feeding": True, "bidirectional": True}),
    ("recurrent", {"attention": "none"}),
]
everywhere = pytest.mark.parametrize(("kind", "changes"), MODELS)


def each_alone(model, length):
    yield from (Ablation(heads={p.name: [h]}) for p in attention_sites(model) for h in range(p.num_heads))
    yield from (Ablation(layers=[name]) for name in layer_names(model))
    yield from (Ablation(tokens=[position]) for position in range(length))


def changed_sequence(forced):
    return next(forced.sequences[name] for name in ("source", "text", "read") if name in forced.sequences)


@everywhere
def test_what_was_switched_off_is_on_again_to_the_bit(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    with torch.no_grad():
        before = forced()
        for ablation in each_alone(forced.model, len(changed_sequence(forced))):
            with ablated(forced.model, ablation):
                forced()
            assert torch.equal(forced(), before)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in forced.model.modules())


@everywhere
def test_many_in_a_batch_are_as_one_by_one(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    sweep = ablations(forced)
    together = [each.change for each in (*sweep.heads, *sweep.layers, *sweep.tokens)]
    alone = [ablate(forced, each) for each in each_alone(forced.model, len(changed_sequence(forced)))]
    assert together == pytest.approx(alone, abs=1e-4)
    assert any(abs(each) > 1e-3 for each in together)


@everywhere
def test_nothing_off_changes_nothing(forced_pass, kind, changes):
    same = pytest.approx(0.0, abs=1e-6)  # of a GRU some CPUs give rows of a batch other last bits
    assert ablate(forced_pass(kind, **changes), Ablation()) == same


def test_the_baseline_is_the_log_probability_of_what_was_written(forced_pass):
    forced = forced_pass("encoder_decoder")
    log_probs = forced()[0].log_softmax(dim=-1)
    written = torch.tensor(forced.sequences["written"])
    expected = log_probs.gather(1, written[:, None]).sum().item()
    assert ablations(forced, heads=False, layers=False, tokens=False).baseline == pytest.approx(expected)


def test_only_the_continuation_of_a_prompt_is_scored(forced_pass):
    """By hand: the model runs again with a head off, and the tokens after the prompt are added up."""
    model, ids, begins = forced_pass("decoder_only").model, (2, 4, 5, 6, 7, 8, 9, 10), 5
    forced = passes.continuation_pass(model, ids, start=begins)
    sweep = ablations(forced, layers=False, tokens=False)

    def of_answer():
        with torch.no_grad():
            log_probs = forced()[0].log_softmax(dim=-1)
        return sum(log_probs[row, forced.sequences["written"][row]].item() for row in range(begins, 7))

    unchanged = of_answer()
    assert sweep.baseline == pytest.approx(unchanged, abs=1e-4)
    for each in sweep.heads:
        with ablated(model, Ablation(heads={each.name: [each.head]})):
            assert each.change == pytest.approx(of_answer() - unchanged, abs=1e-4)


@pytest.mark.parametrize(("kind", "changes"), [each for each in MODELS if each[0] != "recurrent"])
def test_a_head_is_off_as_if_the_output_did_not_read_it(forced_pass, kind, changes):
    """The columns of the output projection that read it are set to zero instead."""
    forced = forced_pass(kind, **changes)
    for place in attention_sites(forced.model):
        output = forced.model.get_submodule(place.name).output
        with torch.no_grad():
            with ablated(forced.model, Ablation(heads={place.name: [1, 3]})):
                found = forced()
            kept = output.weight.clone()
            output.weight.view(len(output.weight), place.num_heads, -1)[:, [1, 3]] = 0.0
            expected = forced()
            output.weight.copy_(kept)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("kind", "changes"), [each for each in MODELS if each[0] != "recurrent"])
def test_a_sub_layer_is_off_as_if_it_gave_nothing(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    for name in layer_names(forced.model):
        above, _, part = name.rpartition(".")
        module = forced.model.get_submodule(name)
        if part not in SUBLAYER_NAMES:
            continue
        last = module.outer if part == "feed_forward" else module.output
        if changes.get("norm_position") in ("sandwich", "reordered"):
            around = forced.model.get_submodule(f"{above}.around_{part}")
            last = around.norm if changes["norm_position"] == "reordered" else around.norm_after
        hook = last.register_forward_hook(lambda _, given, output: output * 0)
        with torch.no_grad():
            expected = forced()
        hook.remove()
        with torch.no_grad(), ablated(forced.model, Ablation(layers=[name])):
            torch.testing.assert_close(forced(), expected)


def test_a_block_is_off_as_if_it_were_not_there(forced_pass):
    forced = forced_pass("decoder_only")
    with torch.no_grad(), ablated(forced.model, Ablation(layers=["blocks.0"])):
        found = forced()
    forced.model.blocks = forced.model.blocks[1:]
    with torch.no_grad():
        torch.testing.assert_close(found, forced())


@pytest.mark.parametrize(
    ("kind", "changes"), [each for each in MODELS if each[0] in ("encoder_decoder", "recurrent")]
)
def test_no_position_attends_to_a_source_token_that_is_off(forced_pass, kind, changes):
    """Another token in its place changes nothing."""
    forced = forced_pass(kind, **changes)
    other = [4, 11, 12, 7]
    again = passes.translation_pass(forced.model, other, [8, 9, 10], bos_id=2, eos_id=3)
    with torch.no_grad():
        assert not torch.allclose(forced(), again(), atol=1e-3)
        with ablated(forced.model, Ablation(tokens=[1, 2])):
            torch.testing.assert_close(forced(), again())


@pytest.mark.parametrize("input_convolution", [None, 3])
@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_nor_does_a_pooling_count_it(forced_pass, pooling, input_convolution):
    changes = {"num_labels": 3, "pooling": pooling, "input_convolution": input_convolution}
    forced = forced_pass("encoder_only", head="classification", **changes)
    again = passes.encoder_pass(forced.model, [2, 4, 11, 12, 7, 3])
    with torch.no_grad():
        assert not torch.allclose(forced(), again(), atol=1e-4)
        with ablated(forced.model, Ablation(tokens=[2, 3])):
            torch.testing.assert_close(forced(), again())


def test_in_a_decoder_those_after_it_do_not_see_it(forced_pass):
    forced = forced_pass("decoder_only")
    again = passes.continuation_pass(forced.model, [2, 4, 11, 6, 7, 8, 9, 10])
    with torch.no_grad(), ablated(forced.model, Ablation(tokens=[2])):
        one, other = forced()[0], again()[0]
    assert not torch.allclose(one[2], other[2], atol=1e-3), "its own stream begins with it"
    keep = [0, 1, 3, 4, 5, 6]
    torch.testing.assert_close(one[keep], other[keep])


SOME = [
    lambda model: Ablation(heads={attention_sites(model)[-1].name: [0, 2]}),
    lambda model: Ablation(heads={attention_sites(model)[0].name: [1]}),
    lambda model: Ablation(layers=[layer_names(model)[-1]]),
    lambda model: Ablation(layers=[layer_names(model)[0]]),
    lambda model: Ablation(layers=[layer_names(model)[1]]),
    lambda model: Ablation(tokens=[1]),
]


@pytest.mark.parametrize("some", SOME)
@pytest.mark.parametrize(
    "changes", [{}, {"norm_position": "pre", "positions": "rotary"}, {"positions": "t5", "num_kv_heads": 2}]
)
def test_what_is_off_is_off_in_decoding_of_translations_too(forced_pass, changes, some):
    """A greedy answer has the same log-probability step by step and in one pass without the same parts."""
    forced = forced_pass("encoder_decoder", **changes)
    model, ablation = forced.model, some(forced.model)
    search = GreedySearch(limits=LengthLimits(ratio=0.0, offset=8))
    source = list(forced.sequences["source"][:-1])
    unchanged = decode_all(search, model, [source])[0][0]
    with ablated(model, ablation):
        (found,) = decode_all(search, model, [source])[0]
        again = passes.translation_pass(model, source, found.ids, bos_id=2, eos_id=3)
        with torch.no_grad():
            log_probs = again()[0].log_softmax(dim=-1)
    each = log_probs.gather(1, torch.tensor(again.sequences["written"])[:, None])[:, 0]
    assert found.token_log_probs == pytest.approx(each.tolist(), abs=1e-4)
    assert found.token_log_probs != pytest.approx(unchanged.token_log_probs, abs=1e-4)
    assert decode_all(search, model, [source])[0][0] == unchanged


@pytest.mark.parametrize("some", SOME)
@pytest.mark.parametrize("changes", [{}, {"window": 3, "positions": "rotary"}, {"positions": "alibi"}])
def test_and_of_continuations(forced_pass, changes, some):
    forced = forced_pass("decoder_only", **changes)
    model, ablation = forced.model, some(forced.model)
    search, prompt = (
        GreedySearch(limits=LengthLimits(offset=99, most=99)),
        prompts_of([[4, 5, 6]], begin_id=2),
    )

    def continuation():
        return continue_all(search, model, prompt, max_new_tokens=6)[0][0]

    unchanged = continuation()
    with ablated(model, ablation):
        found = continuation()
        again = passes.continuation_pass(model, [2, 4, 5, 6, *found.ids, 3])
        with torch.no_grad():
            log_probs = again()[0].log_softmax(dim=-1)
    each = log_probs.gather(1, torch.tensor(again.sequences["written"])[:, None])[3:, 0]
    assert found.token_log_probs == pytest.approx(each.tolist(), abs=1e-4)
    assert found.token_log_probs != pytest.approx(unchanged.token_log_probs, abs=1e-4)
    assert continuation() == unchanged


def test_the_fast_step_makes_way_and_comes_back(forced_pass):
    model = forced_pass("encoder_decoder").model
    assert fast_step(model) is not None
    for some in SOME[:1] + SOME[2:]:
        with ablated(model, some(model)):
            assert fast_step(model) is None
        assert fast_step(model) is not None


def test_what_is_not_there_cannot_be_switched_off(forced_pass):
    forced = forced_pass("encoder_decoder")
    name = attention_sites(forced.model)[0].name
    for wrong, message in (
        (Ablation(heads={"encoder.blocks.7": [0]}), "no attention"),
        (Ablation(heads={name: [4]}), r"no heads \[4\]: it has 4"),
        (Ablation(layers=["encoder.blocks.9"]), "no layer"),
        (Ablation(tokens=[-1]), "no token"),
        (Ablation(tokens=[5]), "there is no token at position 5"),
    ):
        with pytest.raises(ConfigError, match=message):
            ablate(forced, wrong)


def test_an_answer_without_a_probability_cannot_become_less_likely(forced_pass):
    with pytest.raises(ConfigError, match="no probability"):
        ablations(forced_pass("encoder_only", head="regression"))


def test_a_module_that_is_no_model_of_regard_is_refused_by_name():
    with pytest.raises(ConfigError, match="parts of Linear cannot be switched off: it is not a Model"):
        _refuse_unknown(torch.nn.Linear(2, 2), [])


@pytest.mark.parametrize("kind", ["encoder_decoder", "decoder_only", "recurrent"])
def test_several_ablations_are_those_of_rows_and_cannot_decode(forced_pass, kind):
    """Decoding drops and moves rows: an ablation would become that of another row."""
    forced = forced_pass(kind)
    model, name = forced.model, attention_sites(forced.model)[0].name
    several = [Ablation(heads={name: [0]}), Ablation(tokens=[1]), Ablation()]
    search = GreedySearch(limits=LengthLimits(offset=8), eos_id=11)

    def decoded():
        if kind == "decoder_only":
            continue_all(search, model, prompts_of([[4, 5, 6]] * 3, begin_id=2), max_new_tokens=6)
        else:
            decode_all(search, model, [[4, 5, 6]] * 3)

    with (
        ablated(model, *several),
        pytest.raises(ConfigError, match="several ablations at once cannot decode"),
    ):
        decoded()
    inputs = [each.expand(2, *each.shape[1:]) for each in forced.inputs]
    with ablated(model, *several), torch.no_grad():
        if kind != "recurrent":  # whose encoder repeats rows
            with pytest.raises(ConfigError, match="3 ablations for a batch of 2 rows"):
                model(*inputs)
        model(*(each.expand(3, *each.shape[1:]) for each in forced.inputs))


@torch.no_grad()
def test_a_token_to_mask_is_in_every_text_of_a_batch(forced_pass):
    model = forced_pass("encoder_decoder").model
    search = GreedySearch(limits=LengthLimits(offset=4), eos_id=11)
    long, short = [4, 5, 6, 7, 8, 9], [4, 5]
    with ablated(model, Ablation(tokens=[4])):
        decode_all(search, model, [long])
        with pytest.raises(ConfigError, match="no token at position 4") as error:
            decode_all(search, model, [long, short])
    assert error.value.hint == "positions go from 0 to 2"


@torch.no_grad()
def test_tokens_of_speech_are_the_states_of_its_window():
    from regard.models.build import build_model
    from regard.models.speech_to_text import SpeechToTextConfig

    config = SpeechToTextConfig(
        vocab_size=20, num_encoder_layers=1, num_decoder_layers=2, num_encoder_heads=2, num_heads=2,
        d_ff_encoder=32, d_ff=32, d_model=16, max_source_positions=10, num_features=8, max_positions=16,
    )  # fmt: skip
    model = build_model(config, seed=0).eval()
    assert [(site.part, site.rows, site.columns) for site in attention_sites(model)] == [
        ("encoder", "source", "source"),
        *2 * [("decoder", "read", "read"), ("cross", "read", "source")],
    ]
    frames, ids = torch.randn(1, 20, 8), torch.tensor([[1, 2, 3]])
    seen = []
    for site in attention_sites(model):
        name = site.name
        with ablated(model, Ablation(tokens=[1])), record_model(model, [name]) as recording:
            model(frames, ids)
        seen.append(bool((recording.weights(name)[..., 1] == 0).all()))
    assert seen == [True, False, True, False, True]
    with ablated(model, Ablation(tokens=[10])), pytest.raises(ConfigError, match="no token at position 10"):
        model(frames, ids)
