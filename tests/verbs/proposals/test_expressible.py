"""A recipe that is written for a target has a model that `regard export` writes for it."""

import re
import tomllib

import pytest

from regard.errors import UserError
from regard.models.build import config_class
from regard.verbs.proposals.expressible import fitted_to, refuse_targets
from regard.verbs.proposals.published import RecipeChange, with_changes
from regard.weights.pretrained import nearest_families

TRANSLATION = """name = "x"

[tokenizer]
kind = "wordpiece"                     # of both sides
joint = true

[model]
d_model = 16                           # width
num_heads = 2
d_ff = 20
positions = "alibi"
norm_position = "reordered"
qk_norm = "all_heads"

[batches]
batch_tokens = 256
"""
CONTINUATION = """name = "x"

[tokenizer]
kind = "unigram"
normalization = "nfkc"
lowercase = true

[model]
d_model = 16
num_heads = 2
num_layers = 1
positions = "t5"
window = 8
output_bias = true

[batches]
batch_tokens = 256
"""


def model_of(text):
    return tomllib.loads(text)["model"]


def test_only_what_a_target_refuses_is_changed_to_what_it_names():
    fitted = fitted_to(TRANSLATION, "translation", ["ctranslate2"])
    changed = {"positions": "t5", "norm_position": "post", "qk_norm": True}
    assert model_of(fitted.text) == {**model_of(TRANSLATION), **changed}
    assert "d_model = 16                           # width\n" in fitted.text
    assert re.search(r'^positions = "t5" +# for ctranslate2$', fitted.text, re.MULTILINE)
    [note] = fitted.notes
    assert note.startswith("for ctranslate2: ")
    assert "model.positions = 't5'" in note
    same = fitted_to(TRANSLATION, "translation", ["onnx"])
    assert (same.text, same.notes) == (TRANSLATION, ("for onnx: all settings as proposed",))


def test_a_setting_is_left_out_and_a_tokeniser_is_changed_too():
    fitted = fitted_to(CONTINUATION, "language_model", ["gguf"])
    table = tomllib.loads(fitted.text)
    assert "window" not in table["model"]
    assert table["model"]["positions"] == "rotary"
    assert table["model"]["norm"] == "rms"
    assert table["model"]["activation"] == "swiglu"
    assert "output_bias" not in table["model"]
    assert table["tokenizer"] == {"kind": "bpe"}
    again = fitted_to(fitted.text, "language_model", ["gguf"])
    assert again.text == fitted.text


def test_a_package_of_argos_has_a_tokeniser_of_pieces():
    fitted = fitted_to(TRANSLATION, "translation", ["argos"])
    assert tomllib.loads(fitted.text)["tokenizer"]["kind"] == "bpe"


@pytest.mark.parametrize(("text", "task"), [(TRANSLATION, "translation"), (CONTINUATION, "language_model")])
def test_for_transformers_it_is_a_published_family(text, task):
    fitted = fitted_to(text, task, ["hf"])
    kind, sizes = ("encoder_decoder", ("src_vocab_size", "tgt_vocab_size"))
    if task == "language_model":
        kind, sizes = ("decoder_only", ("vocab_size",))
    config = config_class(kind).from_table(model_of(fitted.text), **dict.fromkeys(sizes, 30))
    [(family, rest), *_] = nearest_families(config)
    assert rest == {}
    assert f"as a model of the family {family} has" in fitted.notes[0]


def test_a_setting_that_only_a_published_family_has_stays():
    """GPT-NeoX has parallel residuals, and the code of an export has none."""
    settings = {"positions": "rotary", "norm_position": "pre", "parallel_residual": "two_norms"}
    added = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
    text = f'[tokenizer]\nkind = "bpe"\n[model]\nd_model = 16\nnum_heads = 2\nactivation = "gelu"\n{added}'
    fitted = fitted_to(text, "language_model", ["hf"])
    assert (fitted.text, len(fitted.notes)) == (text, 1)
    assert "as a model of the family gpt_neox has" in fitted.notes[0]


def test_a_translation_is_no_t5_whose_scores_have_no_scale():
    usual = (
        TRANSLATION.replace('"alibi"', '"rotary"')
        .replace('"reordered"', '"pre"')
        .replace('"all_heads"', "false")
    )
    fitted = fitted_to(f"{usual}\n", "translation", ["hf"])
    assert "attention_scale" not in model_of(fitted.text)


def test_what_no_setting_can_fit_is_refused():
    with pytest.raises(UserError, match=r"llama\.cpp has no encoder_decoder models here"):
        fitted_to(TRANSLATION, "translation", ["gguf"])
    with pytest.raises(UserError, match="there is no target 'gguv' of an export"):
        refuse_targets(["onnx", "gguv"], "language_model")
    with pytest.raises(UserError, match="a model for the task tagging generates nothing") as error:
        refuse_targets(["onnx", "ctranslate2"], "tagging")
    assert "for onnx and web it can" in error.value.hint
    with pytest.raises(UserError, match="a model for the task images generates nothing"):
        refuse_targets(["onnx"], "images")


def test_a_tagger_for_a_page_stays_as_it_is():
    fitted = fitted_to('[task]\nkind = "tagging"\n', "tagging", ["onnx", "web"])
    assert fitted.text == '[task]\nkind = "tagging"\n'
    assert fitted.notes == ("for onnx: all settings as proposed", "for web: all settings as proposed")


def test_changes_keep_all_other_lines():
    changes = {"model.d_ff": RecipeChange(value=None), "batches.max_tokens": RecipeChange(value=9)}
    text = with_changes(TRANSLATION, changes)
    assert text == TRANSLATION.replace("d_ff = 20\n", "") + "max_tokens = 9\n"
