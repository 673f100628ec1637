"""The lens ends in the model's predictions and begins in its input."""

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.lens import lens_logits, logit_lens
from regard.inspection.steps import prediction_steps

MODELS = [
    ("encoder_decoder", {}),
    ("encoder_decoder", {"norm_position": "pre", "norm": "rms"}),
    ("encoder_decoder", {"norm_position": "sandwich", "scaled_output": True, "output_bias": True}),
    ("decoder_only", {}),
    ("decoder_only", {"norm_position": "post", "positions": "alibi"}),
    ("encoder_only", {}),
    ("encoder_only", {"norm_position": "pre", "positions": "rotary"}),
]


@pytest.mark.parametrize(("kind", "changes"), MODELS)
def test_the_last_layer_predicts_what_the_model_predicts(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    *earlier, last = lens_logits(forced)
    assert torch.equal(last, forced()[0])
    assert len(earlier) == 2
    assert not any(torch.allclose(each, last, atol=1e-2) for each in earlier)


@pytest.mark.parametrize(("kind", "changes"), MODELS)
def test_cells_ranks_and_entropies_are_those_of_the_steps(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    result = logit_lens(forced, candidates=3)
    assert result.layers == ("embedding", "1", "2")
    ids = forced.sequences[result.positions]
    for layer, logits in enumerate(lens_logits(forced)):
        for position, step in enumerate(prediction_steps(logits, ids, candidates=3)):
            assert result.cells[layer][position] == step.candidates
            assert result.rank[layer][position] == step.rank
            assert result.entropy[layer][position] == step.entropy


def test_positions_are_what_is_written_or_an_encoders_own_text(forced_pass):
    assert logit_lens(forced_pass("encoder_decoder")).positions == "written"
    assert logit_lens(forced_pass("decoder_only")).positions == "written"
    assert logit_lens(forced_pass("encoder_only")).positions == "text"


def test_an_untrained_tied_embedding_predicts_its_input(forced_pass):
    """Tied and without positions, the embedding of a token predicts that token."""
    forced = forced_pass("decoder_only", positions="none", d_model=64)
    predicted = [row[0].id for row in logit_lens(forced).cells[0]]
    assert predicted == list(forced.sequences["read"])


def test_the_model_is_left_as_it_was(forced_pass):
    forced = forced_pass("encoder_decoder")
    before = forced()
    forced.model.train()
    logit_lens(forced)
    assert forced.model.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in forced.model.modules())
    assert torch.equal(forced(), before)


@pytest.mark.parametrize(
    ("kind", "changes"), [("recurrent", {}), ("encoder_only", {"head": "classification", "num_labels": 3})]
)
def test_a_model_that_predicts_no_tokens_has_no_lens(forced_pass, kind, changes):
    with pytest.raises(ConfigError, match="logit lens"):
        logit_lens(forced_pass(kind, **changes))
