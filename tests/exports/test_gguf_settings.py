"""Each setting of a decoder-only model: llama.cpp computes what regard does, or it is refused by its name."""

import ast
import dataclasses
import json

import pytest

from regard.cli import run
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_pretrained import SpecialTokens, from_bytes_bpe, with_special_tokens
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import ConfigError, MissingExtra, UserError
from regard.exports.certified_export import compared
from regard.exports.gguf_folder import GGUF, export_to_gguf, save
from regard.exports.gguf_settings import known, refuse_other_widths
from regard.exports.gguf_tokenizer import gguf_tokenizer
from regard.exports.refusal import NotExpressible
from tests.exports.engine_models import small_model
from tests.exports.settings_table import COMPANIONS, GGUF_TABLE
from tests.exports.test_sentencepiece_file import CORPUS

BASES = {  # of the bases of engine_models, with what llama.cpp needs
    "llama": ("llama", {}),
    "gpt2": (
        "vaswani",
        {"norm_position": "pre", "positions": "learned", "max_positions": 70, "activation": "gelu_tanh"},
    ),
}
POSITIONS = {"llama": "rotary", "gpt2": "learned"}
OTHER = {"llama": "gpt2", "gpt2": "llama"}
TEXTS = ["the dogs' toys", "L'homme qu'il a vu", "well-known"]


def needs_llama_cpp():
    pytest.importorskip("gguf", reason="gguf is not installed")
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")


def model(base="llama", kind="bpe", **settings):
    """A small model with a tokeniser of pieces."""
    size = 280 if kind.startswith("byte") else 180
    tokenizer = train_tokenizer(CORPUS, kind, TokenizerSettings(kind=kind, vocab_size=size))
    name, needed = BASES[base]
    loaded = small_model("decoder_only", name, **{"vocab_size": tokenizer.vocab_size} | needed | settings)
    return dataclasses.replace(loaded, tokenizer_pair=TokenizerPair(tokenizer, tokenizer))


def comparison(loaded, folder, texts=TEXTS, quantization="float32"):
    from regard.exports.gguf_process import answer

    found, _ = compared(GGUF, loaded, folder, texts, quantization, most_new=6, compute=answer)
    return found


def failures(loaded, folder, texts=TEXTS):
    return comparison(loaded, folder, texts).failures


def refused(settings, base):
    """The refusal of these settings; None if llama.cpp has them."""
    try:
        known(model(base, **settings).config)
    except NotExpressible as error:
        return error
    return None


def result(base, name, text, folder):
    """What the table has to say of a setting."""
    others = ("layer_types", "local_rotary_base")
    settings = {**(COMPANIONS[name] if name in others else {}), name: ast.literal_eval(text)}
    if {**BASES[base][1], "positions": POSITIONS[base], **settings}["positions"] == POSITIONS[OTHER[base]]:
        return "absent"  # it is the other column's
    try:
        error = refused(settings, base)
    except ConfigError:
        return "absent"  # of other positions
    if error is not None:
        named = (error.setting, error.value) == (name, settings[name])
        return "refused" if named and error.hint else "refused without its name"
    needs_llama_cpp()
    loaded = model(base, **settings)
    save(loaded, folder)
    return "equal" if failures(loaded, folder) == [] else "different"


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("name", "text", "llama", "gpt2"), GGUF_TABLE)
def test_a_row_of_the_documented_table_is_what_llama_cpp_does(name, text, llama, gpt2, base, tmp_path):
    assert result(base, name, text, tmp_path) == {"llama": llama, "gpt2": gpt2}[base]


def test_the_table_has_all_settings():
    from regard.models.decoder_only import DecoderOnlyConfig

    other = {"dropout", "attention_dropout", "activation_dropout", "trained_length", "pad_id", "vocab_size"}
    other |= {"options"}  # of registered parts, which are refused
    fields = {field.name for field in dataclasses.fields(DecoderOnlyConfig)}
    assert {name for name, *_ in GGUF_TABLE} == fields - other


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_other_tokenisers(kind, tmp_path):
    needs_llama_cpp()
    loaded = model(kind=kind)
    save(loaded, tmp_path)
    assert failures(loaded, tmp_path, [*TEXTS, "two  spaces\tand a tab", "über"]) == []


@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int8"])
def test_quantizations(quantization, tmp_path):
    needs_llama_cpp()
    loaded = model(d_model=64, head_dim=16, d_ff=96)
    save(loaded, tmp_path, quantization)
    found = comparison(loaded, tmp_path, quantization=quantization)
    assert 0 < found.log_probs.largest_difference <= found.bounds.log_prob
    assert found.log_probs.mean_difference <= found.bounds.mean_log_prob
    assert found.ids == 1


def test_the_folder_has_a_file_a_certificate_and_a_card(tmp_path):
    needs_llama_cpp()
    import gguf

    certificate = export_to_gguf(model(), tmp_path / "out", texts=TEXTS)
    assert certificate["greedy"]["equal"] == certificate["beam"]["equal"] == certificate["ids"]["equal"] == 1
    assert {"llama-cpp-python", "gguf"} <= certificate["versions"].keys()
    found = gguf.GGUFReader(str(tmp_path / "out/model.gguf"))
    assert found.fields["general.architecture"].contents() == "llama"
    assert found.fields["tokenizer.ggml.pre"].contents() == "gemma4"
    assert '-p " a text"' in (tmp_path / "out/README.md").read_text("utf-8")


def test_a_wrong_weight_fails_the_certificate(tmp_path, monkeypatch):
    needs_llama_cpp()
    from regard.exports import gguf_folder

    right = gguf_folder._attention

    def wrong(name, config, weights):
        for each, array in right(name, config, weights):
            yield each, array[::-1].copy() if each.endswith("attn_k.weight") else array

    monkeypatch.setattr(gguf_folder, "_attention", wrong)
    loaded = model()
    save(loaded, tmp_path)
    assert failures(loaded, tmp_path)


@pytest.mark.parametrize(
    ("kind", "settings", "problem"),
    [
        ("words", {}, "kind = 'words'"),
        ("unigram", {}, "kind = 'unigram'"),
        ("bytebpe", {}, "kind = 'bytebpe'"),
        ("bpe", {"lowercase": True}, "lowercase = True"),
        ("bpe", {"normalization": "nfkc"}, "normalization = 'nfkc'"),
    ],
)
def test_other_tokenisers_are_refused_by_name(kind, settings, problem):
    given = TokenizerSettings(kind=kind, vocab_size=280, **settings)
    with pytest.raises(NotExpressible) as error:
        gguf_tokenizer(train_tokenizer(CORPUS, kind, given), begins=True)
    assert problem in error.value.message


def test_the_splitting_of_gpt2_is_named():
    content = from_bytes_bpe({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}, ["a b"], prefix_space=False)
    special = SpecialTokens(pad=3, unk=3, bos=3, eos=3, vocab_size=4)
    theirs = Tokenizer.from_bytes(json.dumps(with_special_tokens(content, special)).encode())
    found = gguf_tokenizer(theirs, begins=False)
    assert (found.split, found.first, found.merges) == ("gpt-2", "", ["a b"])
    assert found.kinds == [1, 1, 1, 3]


def test_widths_without_whole_blocks_are_refused_for_int8():
    with pytest.raises(NotExpressible, match="d_model = 20"):
        refuse_other_widths(known(model().config), "int8")


def test_other_kinds_of_models_are_refused(tmp_path):
    with pytest.raises(UserError, match="encoder_decoder"):
        save(small_model("encoder_decoder"), tmp_path)


def test_a_missing_engine_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(MissingExtra) as error:
        save(model(), tmp_path)
    assert error.value.hint == "pip install 'regard[gguf]'"


def test_the_command_refuses_a_translator(capsys, tmp_path):
    assert run(["export", "en-de", "--to", "gguf", "--out", str(tmp_path / "x")]) == 2
    assert "llama.cpp has no encoder_decoder models here" in capsys.readouterr().err
