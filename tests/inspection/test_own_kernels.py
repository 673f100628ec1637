"""Attentions of one's own: what is recorded and looked at is what the model used, or it is refused."""

import copy

import pytest
import torch
from torch import nn

from regard.errors import ConfigError, UserError
from regard.exports.look_graphs import save_look_graphs
from regard.fast.decoding_step import fast_step, why_plain
from regard.inspection.architecture import architecture_of
from regard.inspection.arithmetic import weight_arithmetic
from regard.inspection.passes import continuation_pass
from regard.inspection.record import record_attention, record_model, recording_bytes, refuse_unknown
from regard.inspection.switches import Ablation, ablated
from regard.layers.attention import SelfAttention
from regard.layers.masks import causal_mask
from regard.layers.scaled_dot_product import attention_scores, for_each_query_head, masked_softmax
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.registered import ATTENTIONS
from regard.verbs.look import Changes, Looker, look
from regard.verbs.views.terminal import print_look

SIZES = {"d_model": 16, "num_heads": 4, "d_ff": 32}
IDS = torch.tensor([[2, 8, 9, 4, 5, 7], [2, 10, 3, 5, 6, 1]])
ALL = ("query", "key", "value", "mask", "bias", "weights", "head_output")
NAME = "blocks.0.self_attention"


class Tempered(SelfAttention):
    """Softmax of scores that a learned temperature of each head divides."""

    def __init__(self, d_model, num_heads, **others):
        super().__init__(d_model, num_heads, **others)
        self.temperature = nn.Parameter(torch.linspace(0.2, 3.0, num_heads)[:, None, None])

    def attend(self, query, key, value, mask=None, position_bias=None, dropout=0.0):
        weights = masked_softmax(attention_scores(query, key, position_bias) / self.temperature, mask)
        return torch.dropout(weights, dropout, self.training) @ for_each_query_head(value, query)


class Squashed(SelfAttention):
    """No weighted mean: its output is bounded."""

    def attend(self, query, key, value, mask=None, position_bias=None, dropout=0.0):
        weights = masked_softmax(attention_scores(query, key, position_bias), mask)
        return torch.tanh(weights @ for_each_query_head(value, query))


@pytest.fixture(autouse=True)
def _registered(sigmoid, monkeypatch):
    monkeypatch.setitem(ATTENTIONS.added, "tempered", Tempered)
    monkeypatch.setitem(ATTENTIONS.added, "squashed", Squashed)


def small(attention, **changes):
    config = DecoderOnlyConfig(vocab_size=13, num_layers=2, attention=attention, **SIZES, **changes)
    model = build_model(config, seed=0).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model


def by_hand(model, attention, recording):
    """The weights of the first attention, from its queries and keys."""
    query, key = recording.query(NAME, None), recording.key(NAME, None)
    scores, mask = query @ key.transpose(2, 3) / query.size(3) ** 0.5, causal_mask(query.size(2))
    if attention == "sigmoid":
        count = torch.arange(1, query.size(2) + 1)[:, None]
        return torch.where(mask, torch.sigmoid(scores - count.log()), 0.0)
    tempered = scores / model.get_submodule(NAME).temperature
    return torch.where(mask, tempered, -torch.inf).softmax(dim=-1)


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("attention", ["sigmoid", "tempered"])
@torch.no_grad()
def test_recorded_weights_are_those_that_the_model_used(attention, kv_heads):
    model = small(attention, num_kv_heads=kv_heads, positions="rotary")
    before = model(IDS)
    parts = ("query", "key", "value", "mask", "bias", "weights", "head_output")
    with record_model(model, parts=parts) as recording:
        assert torch.equal(model(IDS), before)
    weights = recording.weights(NAME, None)
    torch.testing.assert_close(weights, by_hand(model, attention, recording))
    torch.testing.assert_close(weights @ recording.value(NAME, None), recording.head_output(NAME, None))
    with record_model(model, [NAME], heads={NAME: [3, 1]}) as some:
        model(IDS)
    torch.testing.assert_close(some.weights(NAME, None), weights[:, [3, 1]])


@pytest.mark.parametrize("attention", ["sigmoid", "tempered"])
@torch.no_grad()
def test_a_model_with_it_is_another_and_decodes_with_a_cache_what_it_reads_at_once(attention):
    model, softmax = small(attention), small("softmax")
    softmax.load_state_dict(model.state_dict(), strict=False)
    at_once = model(IDS)
    assert not torch.allclose(at_once, softmax(IDS), atol=1e-2)
    cache = model.start()
    steps = [model.extend(IDS[:, [t]], cache) for t in range(IDS.size(1))]
    torch.testing.assert_close(torch.stack([each.squeeze(1) for each in steps], dim=1), at_once)
    assert "is not a type that it knows" in (why_plain(model) or "")
    assert fast_step(model) is None
    assert torch.equal(copy.deepcopy(model)(IDS), at_once)


@torch.no_grad()
def test_recorders_and_ablations_leave_nothing_in_an_object_whose_class_has_the_kernel():
    model = small("sigmoid")
    module = model.get_submodule(NAME)
    with ablated(model, Ablation(heads={NAME: [1]})), record_attention(model) as without:
        model(IDS)
    with record_attention(model) as recording:
        model(IDS)
    architecture_of(continuation_pass(model, IDS[0].tolist()))
    assert "attend" not in vars(module)
    torch.testing.assert_close(without.weights(NAME), recording.weights(NAME))


@torch.no_grad()
def test_what_needs_the_scores_of_such_a_kernel_is_refused():
    model = small("sigmoid")
    with pytest.raises(ConfigError, match=f"the scores of {NAME} are not known"):
        record_model(model, parts=("scores",)).__enter__()
    with record_model(model, parts=("query", "key", "value", "mask", "bias")) as recording:
        model(IDS)
    with pytest.raises(ConfigError, match=f"the arithmetic of {NAME} is not known"):
        weight_arithmetic(recording, NAME, 0, 1, 0)
    with pytest.raises(ConfigError, match=f"no weights of {NAME} is recorded"):
        recording.weights(NAME)


def test_a_kernel_that_is_no_weighted_mean_is_refused_by_name():
    model = small("squashed")
    with (
        pytest.raises(ConfigError, match=f"{NAME} has no weights to record"),
        record_attention(model),
    ):
        model(IDS)
    with record_model(model, parts=("query", "head_output")) as recording:
        model(IDS)
    assert recording.head_output(NAME).abs().max() <= 1


def test_costs_of_such_a_model_are_counted_with_its_own_kernel():
    with torch.no_grad():
        costs = architecture_of(continuation_pass(small("sigmoid"), IDS[0].tolist()))
        usual = architecture_of(continuation_pass(small("softmax"), IDS[0].tolist()))
    assert costs.totals.flops == usual.totals.flops  # the same two matrix products


def test_a_look_shows_the_weights_of_such_a_model(decoder_folder):
    folder = decoder_folder(attention="sigmoid")
    result = look("To be", folder, device="cpu", max_new_tokens=5)
    (place,) = result.summary["attentions"]
    weights = torch.from_numpy(result.get(f"attention/{place['name']}")).float()
    assert (weights.sum(dim=-1) - 1).abs().max() > 0.1, "those of a softmax sum to 1"
    with torch.no_grad(), record_attention(result._recorded.model) as recording:
        result._recorded.run.forced()
    torch.testing.assert_close(weights, recording.weights(place["name"]), atol=1e-3, rtol=1e-3)
    assert not {f"query/{place['name']}", f"key/{place['name']}"} & {*result.summary["resources"]}


@torch.no_grad()
def test_parts_of_each_attention_are_recorded_by_name():
    model = small("softmax")
    other = "blocks.1.self_attention"
    model.get_submodule(NAME).attend = Tempered(16, 4).attend
    parts = {NAME: ("value", "weights"), other: ("query", "key", "mask", "bias")}
    with record_model(model, parts=parts) as recording:
        model(IDS)
    held = {name: {*recording.calls_by_module[name][0].parts} for name in parts}
    assert held[NAME] == {"value", "weights"}
    assert held[other] == {"query", "key", "mask"}
    with record_model(model) as everything:
        model(IDS)
    for name in parts:
        torch.testing.assert_close(recording.weights(name), everything.weights(name))
    bound = recording_bytes(model, {"read": 6}, parts=parts, batch_size=2)
    assert recording.bytes_held <= bound < recording_bytes(model, {"read": 6}, parts=ALL, batch_size=2)
    with record_model(model, parts={other: ("weights",)}) as one:
        model(IDS)
    assert [*one.heads] == [other]
    with pytest.raises(ConfigError, match="names the attentions already"):
        record_model(model, [NAME], parts=parts).__enter__()
    with pytest.raises(ConfigError, match=r"no attention 'blocks\.2"):
        record_model(model, parts={"blocks.2.self_attention": ("weights",)}).__enter__()
    with pytest.raises(ConfigError, match="no part 'wights'"):
        refuse_unknown(model, {}, {NAME: ("wights",)}, {}, ())


def test_a_look_records_weights_only_of_the_attention_that_has_a_kernel_of_its_own(decoder_folder):
    usual = look("To be", decoder_folder(num_layers=2), device="cpu", max_new_tokens=5)
    own = Looker(decoder_folder(num_layers=2), device="cpu")
    own.loaded.model.get_submodule(NAME).attend = Tempered(16, 2).attend
    result = own.look("To be", max_new_tokens=5)
    recording = result._recorded.recording
    with_weights = [name for name in recording.heads if "weights" in recording.calls_by_module[name][0].parts]
    assert with_weights == [NAME]
    assert "weights" not in usual._recorded.recording.calls_by_module[NAME][0].parts
    for name in recording.heads:
        sums = torch.from_numpy(result.get(f"attention/{name}")).float().sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-2, rtol=1e-2)


def test_a_look_shows_all_but_the_weights_of_an_attention_that_is_no_weighted_mean(decoder_folder, tmp_path):
    result = look("To be", decoder_folder(attention="squashed"), device="cpu", max_new_tokens=5)
    summary = result.summary
    assert summary["attentions"] == []
    [without] = summary["without_weights"]
    assert (without["name"], without["why"]) == (NAME, "its attention is not a weighted mean of the values")
    missing = {"heads", "rollout/decoder", f"attention/{NAME}"}
    assert not missing & {*summary["resources"]}
    for path in result.paths():
        result.get(path)
    assert f"hidden/{NAME.removesuffix('.self_attention')}" in result.paths()
    with pytest.raises(UserError, match=f"{NAME} has no weights to show: its attention is not a weighted"):
        result.get(f"attention/{NAME}")
    with pytest.raises(UserError, match=f"of {NAME}, its attention is not a weighted mean"):
        result.heads_linking("0", "1")
    assert f"no weights\t{NAME}\tits attention is not a weighted mean of the values" in result.to_text()
    assert '"without_weights":[{"name":"blocks.0.self_attention"' in result.to_json()
    assert "not a weighted mean of the values" in result.to_html(tmp_path / "look.html").read_text()
    assert result.to_npz(tmp_path / "look.npz").exists()


def test_the_other_attentions_are_shown_beside_one_without_weights(decoder_folder, capsys):
    looker = Looker(decoder_folder(num_layers=2), device="cpu")
    other = "blocks.1.self_attention"
    looker.loaded.model.get_submodule(NAME).attend = Squashed(16, 2).attend
    result = looker.look("To be", max_new_tokens=5)
    assert [each["name"] for each in result.summary["attentions"]] == [other]
    assert {head["name"] for head in result.get("heads")} == {other}
    assert "rollout/decoder" not in result.paths()
    assert result.get(f"attention/{other}").ndim == 3
    assert {head.name for head in result.heads_linking("0", "1")} == {other}
    print_look(result)
    assert f"{NAME} has no weights to show: its attention is not a weighted mean" in capsys.readouterr().out
    without = looker.look("To be", max_new_tokens=5, changes=Changes(heads={NAME: [0]}))
    assert without.summary["without_weights"][0]["name"] == NAME


def test_a_page_with_its_model_is_refused_for_such_a_model(tmp_path):
    config = EncoderDecoderConfig(
        src_vocab_size=11, tgt_vocab_size=11, num_encoder_layers=1, num_decoder_layers=1,
        attention="sigmoid", **SIZES,
    )  # fmt: skip
    with pytest.raises(UserError, match=r"cannot compute the weights of encoder\.blocks\.0\.self_attention"):
        save_look_graphs(build_model(config, seed=0), tmp_path)
