"""What cannot be inspected is refused by a ConfigError with a hint, not by an error of PyTorch."""

import dataclasses
import re
from types import SimpleNamespace

import jaxtyping
import numpy as np
import pytest
import torch

from regard.errors import ConfigError
from regard.inspection import (
    Ablation,
    ForcedPass,
    Patch,
    ablate,
    ablated,
    ablations,
    align,
    align_by_best_layer,
    answer_log_prob,
    attention_rollout,
    attention_sites,
    attributions,
    blocks,
    clearest_alignment,
    continuation_pass,
    encoder_pass,
    head_statistics,
    image_pass,
    logit_lens,
    nearest_neighbours,
    patched,
    positions_of,
    prediction_steps,
    record_attention,
    record_model,
    recording_bytes,
    translation_pass,
    weight_arithmetic,
)

ENDS = {"bos_id": 2, "eos_id": 3}
MEASURES = (ablations, logit_lens, attributions, answer_log_prob, lambda forced: ablate(forced, Ablation()))


@pytest.fixture(autouse=True)
def without_checks_of_types():
    """As for users: a value of another type arrives."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def passes(forced_pass, vision_folder):
    """A pass of each kind of model."""
    from regard.models.build import build_model
    from regard.models.vision import VisionConfig

    found = {
        kind: forced_pass(kind) for kind in ("encoder_decoder", "decoder_only", "encoder_only", "recurrent")
    }
    config = VisionConfig(
        image_size=8, patch_size=4, d_model=16, num_heads=2, d_ff=32, num_layers=1, num_labels=3
    )
    found["vision"] = image_pass(build_model(config, seed=0).eval(), torch.zeros(1, config.channels, 8, 8))
    found["regression"] = forced_pass("encoder_only", head="regression")
    found["no_attention"] = forced_pass("recurrent", attention="none")
    return found


def recorded(forced, **settings):
    with torch.no_grad(), record_model(forced.model, **settings) as recording:
        forced()
    return recording


def entered(context):
    with context:
        pass


def under(forced, ablation):
    with ablated(forced.model, ablation), torch.no_grad():
        forced()


def of_patch(forced, module="blocks.0", **settings):
    value = torch.ones(4, 7, 4) if "heads" in settings else torch.ones(7, 16)
    with patched(forced.model, Patch(module=module, **{"value": value, **settings})), torch.no_grad():
        forced()


def unforced(forced):
    """The pass without its target, as one that only reads the source or the prompt."""
    kept = {name: ids for name, ids in forced.sequences.items() if name not in ("read", "written")}
    return dataclasses.replace(forced, sequences=kept or {"read": forced.sequences["read"]})


OF_PASSES = [
    ("encoder_decoder", lambda f: translation_pass(f.model, [4, 99], [5], **ENDS), "no token 99"),
    ("encoder_decoder", lambda f: translation_pass(f.model, [4], [-1], **ENDS), "tgt_ids: .* no token -1"),
    (
        "encoder_decoder",
        lambda f: translation_pass(f.model, [4], [5], bos_id=None, eos_id=3),
        "bos_id = None",
    ),
    ("encoder_decoder", lambda f: translation_pass(f.model, [4], [5], bos_id=2, eos_id=40), "no token 40"),
    (
        "decoder_only",
        lambda f: translation_pass(f.model, [4], [5], **ENDS),
        "DecoderOnly is not a SequenceToS",
    ),
    ("encoder_decoder", lambda f: continuation_pass(f.model, [2, 4]), "EncoderDecoder is not a DecoderOnly"),
    ("decoder_only", lambda f: continuation_pass(f.model, [2]), "1 tokens"),
    ("decoder_only", lambda f: continuation_pass(f.model, []), "0 tokens"),
    ("decoder_only", lambda f: continuation_pass(f.model, [2, 13]), "no token 13"),
    ("decoder_only", lambda f: continuation_pass(f.model, [2, 4, 5], start=3), "start = 3"),
    ("decoder_only", lambda f: continuation_pass(f.model, [2, 4, 5], start=-1), "start = -1"),
    ("encoder_only", lambda f: encoder_pass(f.model, []), "one token or more"),
    ("encoder_only", lambda f: encoder_pass(f.model, [2, 13]), "no token 13"),
    ("encoder_only", lambda f: encoder_pass(f.model, [2, 3], answer_rows=(2,)), "no row 2"),
    ("vision", lambda f: encoder_pass(f.model, [2, 3]), "VisionTransformer is not a EncoderOnly"),
    ("vision", lambda f: image_pass(f.model, torch.zeros(1, 3, 9, 8)), "the image has the shape"),
    ("encoder_only", lambda f: image_pass(f.model, torch.zeros(1, 3, 8, 8)), "is not a VisionTransformer"),
]
ATTENTION = "decoder.blocks.0.self_attention"
FIRST = "blocks.0"
OF_INSPECTION = [
    *((kind, lambda f, each=each: each(unforced(f)), "no forced target")
      for kind in ("encoder_decoder", "decoder_only") for each in MEASURES),
    *(("recurrent", lambda f, each=each: each(unforced(f)), "no forced target")
      for each in MEASURES if each is not logit_lens),
    *(("encoder_only", lambda f, each=each: each(dataclasses.replace(f, sequences={})), "sequence")
      for each in (ablations, attributions)),
    *(("regression", each, "probability|predicts tokens") for each in MEASURES),
    *(("encoder_only", lambda f, each=each: each(dataclasses.replace(f, answer_rows=(9,))), "no row 9")
      for each in (ablations, attributions, answer_log_prob)),
    ("recurrent", logit_lens, "needs a Transformer that predicts tokens"),
    ("vision", logit_lens, "needs a Transformer that predicts tokens"),
    ("vision", attributions, "reads no tokens"),
    ("vision", nearest_neighbours, "reads no tokens"),
    ("decoder_only", lambda f: logit_lens(f, candidates=0), "candidates = 0"),
    ("decoder_only", lambda f: attributions(f, method="saliency"), "no method 'saliency'"),
    ("decoder_only", lambda f: attributions(f, columns="source"), "attributed to 'source'"),
    ("decoder_only", lambda f: attributions(f, columns="written"), "attributed to 'written'"),
    ("decoder_only", lambda f: attributions(f, method="integrated", points=0), "points = 0"),
    ("decoder_only", lambda f: nearest_neighbours(f, count=0), "count = 0"),
    ("encoder_decoder", lambda f: ablate(f, Ablation(heads={"decoder.blocks.9": [0]})), "no attention"),
    ("encoder_decoder", lambda f: ablate(f, Ablation(heads={ATTENTION: [4]})), r"no heads \[4\]"),
    ("encoder_decoder", lambda f: ablate(f, Ablation(heads={ATTENTION: [-1]})), r"no heads \[-1\]"),
    ("encoder_decoder", lambda f: ablate(f, Ablation(layers=["decoder.blocks.0.norm"])), "no layer"),
    ("recurrent", lambda f: ablate(f, Ablation(layers=["encoder"])), "no layer"),
    ("encoder_decoder", lambda f: ablate(f, Ablation(tokens=[99])), "no token at position 99"),
    ("encoder_decoder", lambda f: entered(ablated(torch.nn.Linear(2, 2), Ablation())), "not a Model of reg"),
    ("encoder_decoder", lambda f: entered(patched(f.model, Patch(module="x", value=torch.ones(2, 4)))), "no"),
    *((kind, lambda f, token=token: under(f, Ablation(tokens=[1, token])), f"no token at position {token}")
      for kind, token in (("encoder_decoder", 5), ("decoder_only", 7), ("encoder_only", 6), ("recurrent", 5),
                          ("no_attention", 9), ("vision", 99))),
    *(("encoder_decoder", lambda f, tokens=tokens: under(f, Ablation(tokens=tokens)), "not a seq")
      for tokens in ([1.5], [True], 1, "12")),
    *(("decoder_only", lambda f, positions=positions: of_patch(f, positions=positions), message)
      for positions, message in (([], "no positions"), ([1.5], "positions = .1.5. is not a sequence of"),
                                 (2, "positions = 2 is not a sequence"), ("1", "is not a sequence"))),
    *(("decoder_only", lambda f, heads=heads: of_patch(f, f"{FIRST}.self_attention", heads=heads), message)
      for heads, message in (([], "no heads"), ([1.5], "is not a sequence"), ([True], "is not a sequence"),
                             (1, "heads = 1 is not a sequence"), ([4], "no heads .4.: it has 4"))),
    *(("decoder_only", lambda f, value=value: of_patch(f, value=value), "is a (list|ndarray), not a tensor")
      for value in ([[1.0] * 16] * 7, np.ones((7, 16)))),
    ("decoder_only", lambda f: of_patch(f, "blocks"), "'blocks' was never called"),
    *(("encoder_decoder", lambda f, heads=heads: align(f.model, [4], [5], **ENDS, heads=heads), "not a seq")
      for heads in ([1.5], [True], 3)),
    ("encoder_decoder", lambda f: align(f.model, [4], [5], **ENDS, layer=1.0), "no layer 1.0"),
    ("encoder_decoder", lambda f: translation_pass(f.model, [6.0], [5], **ENDS), "6.0 is not the id"),
    ("decoder_only", lambda f: continuation_pass(f.model, [2, 4, 5], start=1.5), "start = 1.5"),
    *(("decoder_only", lambda f, number=number: logit_lens(f, candidates=number), f"candidates = {number!r}")
      for number in (1.5, True, "5")),
    ("decoder_only", lambda f: attributions(f, points=1.5), "points = 1.5"),
    ("decoder_only", lambda f: nearest_neighbours(f, count=1.5), "count = 1.5"),
    ("decoder_only", lambda f: positions_of(f.model, 1.5), "length = 1.5"),
    *(("decoder_only", lambda f, share=share: attention_rollout([torch.ones(2, 3, 3)], residual=share),
       f"residual = {share!r}") for share in (2, -1, "0.5", True, float("nan"))),
    ("encoder_decoder", lambda f: align(f.model, [4], [5], **ENDS, layer=2), "no layer 2"),
    ("encoder_decoder", lambda f: align(f.model, [4], [5], **ENDS, layer=-3), "no layer -3"),
    ("encoder_decoder", lambda f: align(f.model, [4], [5], **ENDS, heads=[4]), "no heads"),
    ("encoder_decoder", lambda f: align(f.model, [4], [5], **ENDS, heads=[]), "no heads"),
    ("encoder_decoder", lambda f: align_by_best_layer(f.model, [44], [5], **ENDS), "no token 44"),
    ("decoder_only", lambda f: align(f.model, [4], [5], **ENDS), "no attention to its source"),
    ("no_attention", lambda f: align_by_best_layer(f.model, [4], [5], **ENDS), "no attention to its source"),
    ("decoder_only", lambda f: clearest_alignment({}, attention_sites(f.model)), "no cross-attention"),
    ("decoder_only", lambda f: positions_of(f.model, 0), "length = 0"),
    ("decoder_only", lambda f: positions_of(f.model, 4, part="head"), "no part 'head'"),
    ("decoder_only", lambda f: attention_rollout([]), "one layer or more"),
    ("decoder_only", lambda f: attention_rollout([torch.ones(2, 3, 3), torch.ones(2, 4, 4)]), "shapes"),
    ("decoder_only", lambda f: attention_rollout([torch.ones(2, 3, 4)]), "shapes"),
    ("decoder_only", lambda f: attention_rollout([torch.eye(3)]), "shapes"),
    *(("decoder_only", lambda f, given=given: under(f, Ablation(**given)), message)
      for given, message in (({"layers": "blocks.0"}, "layers = 'blocks.0' is not a seq"),
                             ({"layers": [0]}, "no layer 0"), ({"heads": [(0, 1)]}, "does not name"))),
    ("decoder_only", lambda f: ablate(f, Ablation(tokens=["First"])), "is not a sequence of whole"),
    *(("decoder_only", lambda f, use=use: use(SimpleNamespace(model=f.model)), "not a module of PyTorch")
      for use in (attention_sites, blocks, lambda each: positions_of(each, 3),
                  lambda each: continuation_pass(each, [2, 4]), lambda each: entered(record_model(each)),
                  lambda each: entered(patched(each)), lambda each: entered(ablated(each)))),
    ("decoder_only", lambda f: entered(record_model(torch.nn.Linear(2, 2))), "no attentions to record"),
    ("decoder_only", lambda f: entered(record_model(torch.nn.Linear(2, 2), ["x"])), "no attention 'x'"),
    ("decoder_only", lambda f: prediction_steps(torch.zeros(2, 5), [1]), "1 tokens for 2 positions"),
    ("decoder_only", lambda f: prediction_steps(torch.zeros(2, 5), [1, 5]), "no token 5"),
    ("decoder_only", lambda f: prediction_steps(torch.zeros(1, 5), [1], candidates=0), "candidates = 0"),
]  # fmt: skip
OF_RECORDINGS = [
    *(
        ("decoder_only", lambda f, given=given: recorded(f, **given), message)
        for given, message in (
            ({"names": "blocks.0.self_attention"}, "names = .* is not a sequence of names"),
            ({"names": 3}, "names = 3 is not a sequence of names"),
            ({"names": [0]}, "no attention 0"),
            ({"hidden": "blocks.0"}, "hidden = 'blocks.0' is not a sequence of names"),
            ({"hidden": [0]}, "no module 0"),
            ({"parts": "weights"}, "parts = 'weights' is not a sequence of names"),
            ({"parts": [0]}, "no part 0"),
            ({"heads": [2]}, "heads = .2. does not name their attention"),
        )
    ),
    ("decoder_only", lambda f: recording_bytes(f.model, {"read": -64}), "length of 'read' = -64"),
    ("decoder_only", lambda f: recorded(f, names=["blocks.9"]), "no attention 'blocks.9'"),
    ("decoder_only", lambda f: recorded(f, parts=("keys",)), "no part 'keys'"),
    ("decoder_only", lambda f: recorded(f, heads={"blocks.0.self_attention": [4]}), "no heads"),
    ("decoder_only", lambda f: recorded(f, hidden=["blocks.9"]), "no module 'blocks.9'"),
    ("decoder_only", lambda f: recorded(f, limit=8), "limit|bytes"),
    ("decoder_only", lambda f: entered(record_attention(f.model, ["x"])), "no attention 'x'"),
    ("decoder_only", lambda f: recorded(f).weights("blocks.9"), "nothing is recorded"),
    ("decoder_only", lambda f: recorded(f).query("blocks.0.self_attention"), "no query"),
    ("decoder_only", lambda f: recorded(f).weights("blocks.0.self_attention", 1), "no row 1"),
    ("decoder_only", lambda f: recorded(f).weights("blocks.0.self_attention", -1), "no row -1"),
    ("decoder_only", lambda f: recorded(f, hidden=blocks(f.model)).hidden("blocks.0", 5), "no row 5"),
    ("decoder_only", lambda f: recorded(f).logits(), "nothing is recorded under 'logits'"),
    ("decoder_only", lambda f: recording_bytes(f.model, {"source": 3}), "length of 'read' is missing"),
    ("encoder_decoder", lambda f: recording_bytes(f.model, {"source": 3}), "length of 'read' is missing"),
    *(
        ("decoder_only", lambda f, place=place: cell(f, *place), message)
        for place, message in (
            (("blocks.9", 0, 0, 0), "nothing is recorded"),
            (("blocks.0.self_attention", 9, 0, 0), "head 9"),
            (("blocks.0.self_attention", 0, 99, 0), "no cell"),
            (("blocks.0.self_attention", 0, 0, -1), "no cell"),
            (("blocks.0.self_attention", 0, 0, 0, 7), "no row 7"),
        )
    ),
    *(
        ("encoder_decoder", lambda f, given=given: statistics(f, **given), message)
        for given, message in (
            ({"rows": [1, 2]}, "4 rows and 5 columns for 2 and 5 tokens"),
            ({"columns": [1]}, "for 4 and 1 tokens"),
            ({"links": [(5, 0)]}, "the link 5-0 is beyond"),
            ({"links": [(0, -1)]}, "the link 0--1 is beyond"),
        )
    ),
]


HINTS = [
    (lambda f: recorded(f, parts=("pattern",)), "did you mean 'weights'?"),
    (lambda f: recorded(f, hidden=["blocks.1.hook_resid_post"]), "did you mean 'blocks.1'?"),
    (lambda f: recorded(f, hidden=["blocks.1.hook_resid_pre"]), "did you mean 'blocks.0'?"),
    (lambda f: recorded(f, hidden=["blocks.0.hook_resid_pre"]), "did you mean 'input'?"),
    (lambda f: recorded(f, hidden=["blocks.0.hook_resid_mid"]), "'blocks.0.around_self_attention'"),
    (lambda f: recorded(f, hidden=["blocks.1.hook_mlp_out"]), "did you mean 'blocks.1.feed_forward'?"),
    (lambda f: recorded(f, hidden=["blocks.1.mlp.hook_post"]), "'blocks.1.feed_forward.dropout'"),
    (lambda f: recorded(f, hidden=["ln_final.hook_normalized"]), "did you mean 'norm'?"),
    (lambda f: recorded(f, names=["blocks.1.attn.hook_pattern"]), "'blocks.1.self_attention'"),
    (lambda f: continuation_pass(SimpleNamespace(model=f.model), [2, 4]), "give its `.model`"),
    (lambda f: entered(record_model(torch.nn.Linear(2, 2), ["x"])), r"regard\.load\(FOLDER\)"),
]


@pytest.mark.parametrize(("wrong", "hint"), HINTS)
def test_a_hint_names_what_will_do(passes, wrong, hint):
    with pytest.raises(ConfigError) as caught:
        wrong(passes["decoder_only"])
    assert re.search(hint, caught.value.hint)


@pytest.mark.parametrize("kind", ["decoder_only", "encoder_only", "encoder_decoder"])
def test_a_text_of_more_tokens_than_positions_is_refused_before_the_pass(forced_pass, kind):
    model = forced_pass(kind, positions="learned", max_positions=9).model
    make = {
        "decoder_only": lambda count: continuation_pass(model, [4] * (count + 1)),
        "encoder_only": lambda count: encoder_pass(model, [4] * count),
        "encoder_decoder": lambda count: translation_pass(model, [4], [5] * (count - 1), **ENDS),
    }[kind]
    make(9)()
    with pytest.raises(ConfigError, match="10 tokens are to be read, and the model has 9 positions"):
        make(10)


def test_the_ids_of_a_tensor_are_numbers_in_its_pass(passes):
    model = passes["decoder_only"].model
    found = continuation_pass(model, torch.tensor([2, 4, 5])).sequences
    assert all(type(each) is int for ids in found.values() for each in ids)


def cell(forced, name, head, row, column, at=0):
    parts = ("query", "key", "value", "mask", "bias")
    return weight_arithmetic(recorded(forced, parts=parts), name, head, row, column, at=at)


def statistics(forced, **given):
    site = next(each for each in attention_sites(forced.model) if each.part == "cross")
    tokens = {"rows": forced.sequences["written"], "columns": forced.sequences["source"], **given}
    return head_statistics(site, recorded(forced).weights(site.name), **tokens)


@pytest.mark.parametrize(("kind", "wrong", "message"), [*OF_PASSES, *OF_INSPECTION, *OF_RECORDINGS])
def test_a_wrong_input_is_refused_by_name(passes, kind, wrong, message):
    forced: ForcedPass = passes[kind]
    before = [parameter.clone() for parameter in forced.model.parameters()]
    with pytest.raises(ConfigError, match=message) as caught:
        wrong(forced)
    assert caught.value.hint
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in forced.model.modules())
    assert all(map(torch.equal, forced.model.parameters(), before))
