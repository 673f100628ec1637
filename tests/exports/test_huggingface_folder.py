"""Models for transformers: a published family where one fits, else code beside the weights."""

import ast
import dataclasses
import json

import pytest
import torch
from torch import nn

from regard.cli import run
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import MissingExtra, RunError, UserError
from regard.exports import huggingface_folder
from regard.exports.certified_export import compared
from regard.exports.huggingface_folder import OWN, export_to_huggingface, save
from regard.exports.refusal import NotExpressible
from regard.models.registered import POSITIONS, PositionalEncoding
from tests.exports.engine_models import BASES, TEXTS, random_settings, small_model
from tests.exports.settings_table import KINDS, TABLE, model_of

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("default")  # of transformers


def failures(loaded, folder, texts=TEXTS):
    from regard.exports.huggingface_process import answer

    found, _ = compared(OWN, loaded, folder, texts, most_new=7, compute=answer)
    assert found.log_probs.largest_difference <= 1e-4
    return found.failures


def result(kind, base, name, text, folder):
    """What the table has to say of a setting."""
    if (loaded := model_of(kind, base, name, text)) is None:
        return "absent"
    try:
        save(loaded, folder)
    except NotExpressible as error:
        return "refused" if error.setting == name and error.hint else "refused without its name"
    written = json.loads((folder / "config.json").read_bytes())
    same = name == "rotary_scaling" or written["settings"][name] == ast.literal_eval(text)
    return "equal" if failures(loaded, folder) == [] and same else "different"


# every eighth row with one of the bases for every change, all with both nightly
@pytest.mark.parametrize(
    ("name", "text", "encoder_decoder", "decoder_only", "base"),
    [
        pytest.param(*row[:2], *row[4:], base, marks=pytest.mark.nightly if (number + 8 * turn) % 16 else ())
        for number, row in enumerate(TABLE)
        for turn, base in enumerate(BASES)
    ],
)
def test_a_row_of_the_documented_table_is_what_transformers_does(
    name, text, encoder_decoder, decoder_only, base, tmp_path
):
    found = []
    for kind in KINDS:
        (folder := tmp_path / kind).mkdir()
        found.append(result(kind, base, name, text, folder))
    assert found == [encoder_decoder, decoder_only]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 16))]
)
def test_settings_together(kind, seed, tmp_path):
    settings = random_settings(kind, seed)
    if kind == "decoder_only":
        settings |= {"output_bias": False, "parallel_residual": None}
    loaded = small_model(kind, **settings)
    save(loaded, tmp_path)
    assert failures(loaded, tmp_path) == []


@pytest.mark.parametrize(
    "scaling",
    [
        {"kind": "llama3", "factor": 8.0, "low_frequency": 1.0, "high_frequency": 4.0, "original_length": 16},
        {"kind": "yarn", "factor": 4.0, "original_length": 16},
    ],
    ids=lambda scaling: scaling["kind"],
)
def test_scaled_rotary_positions(scaling, tmp_path):
    loaded = small_model("decoder_only", "llama", rotary_scaling=scaling, norm_position="sandwich")
    save(loaded, tmp_path)
    assert failures(loaded, tmp_path) == []


FAMILIES = {  # kind, base and settings
    "llama": ("decoder_only", "llama", {}),
    "gpt2": (
        "decoder_only", "vaswani", {"positions": "learned", "norm_position": "pre", "activation": "gelu"}
    ),
    "gpt_neox": (  # the exported code has no parallel residuals
        "decoder_only",
        "vaswani",
        {
            "positions": "rotary", "norm_position": "pre", "activation": "gelu",
            "parallel_residual": "two_norms",
        },
    ),
    "marian": (
        "encoder_decoder", "vaswani", {"position_layout": "split", "activation": "silu", "output_bias": True}
    ),
}  # fmt: skip


@pytest.fixture
def answered_here(monkeypatch):
    """transformers answers in this process, where it is imported; the command starts one of its own."""
    from regard.exports.huggingface_process import answer

    monkeypatch.setattr(
        "regard.exports.certified_export.in_own_process", lambda module, engine, job: answer(job)
    )


@pytest.mark.usefixtures("answered_here")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_that_fits_is_written_without_code(family, tmp_path):
    kind, base, settings = FAMILIES[family]
    certificate = export_to_huggingface(small_model(kind, base, **settings), tmp_path / "out", texts=TEXTS)
    assert json.loads((tmp_path / "out/config.json").read_bytes())["model_type"] == family
    assert not (tmp_path / "out/modeling_regard.py").exists()
    assert certificate["ids"]["equal"] == 1
    assert "trust_remote_code" not in (tmp_path / "out/README.md").read_text("utf-8")


@pytest.mark.usefixtures("answered_here")
def test_a_family_whose_tokeniser_transformers_chooses_itself_is_not_written(tmp_path):
    loaded = small_model("decoder_only", "llama", attention_bias="inputs")  # as in Qwen2
    certificate = export_to_huggingface(loaded, tmp_path / "out", texts=TEXTS)
    assert "equal ids" in certificate["family_refused"]
    assert certificate["ids"]["equal"] == 1
    assert (tmp_path / "out/modeling_regard.py").exists()


def reloaded(folder, kind="encoder_decoder"):
    auto = "AutoModelForSeq2SeqLM" if kind == "encoder_decoder" else "AutoModelForCausalLM"
    return getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True).eval()


ODD = {"norm_position": "sandwich", "positions": "t5"}  # what no family has


@pytest.fixture(params=["rotary", "t5", "alibi", "sinusoidal", "learned"])
def positions(request):
    return request.param


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_batch_do_not_depend_on_padding_nor_on_the_cache(kind, positions, tmp_path):
    """Prompts are padded on the left, sources on the right."""
    settings = {"positions": positions, "norm_position": "sandwich"}
    loaded = small_model(kind, "vaswani", **settings)
    save(loaded, tmp_path)
    model = reloaded(tmp_path, kind)
    rows = [[4, 5, 6, 7, 8], [9, 10]]
    on_left = kind == "decoder_only"

    def generated(ids, **options):
        width = max(map(len, ids))
        pads = [[0] * (width - len(row)) for row in ids]
        both = [(pad + row if on_left else row + pad) for pad, row in zip(pads, ids, strict=True)]
        mask = [[1] * len(row) for row in ids]
        zeros = pads
        masks = [(zero + one if on_left else one + zero) for zero, one in zip(zeros, mask, strict=True)]
        found = model.generate(
            torch.tensor(both), attention_mask=torch.tensor(masks), max_new_tokens=6, min_new_tokens=6,
            do_sample=False, **options,
        )  # fmt: skip
        return found[:, width if on_left else 1 :].tolist()

    for options in ({"num_beams": 1}, {"num_beams": 3}):
        alone = [generated([row], **options)[0] for row in rows]
        assert generated(rows, **options) == alone
        assert generated(rows, use_cache=False, **options) == alone


@pytest.mark.parametrize("tied", ["all", "target", "embeddings", "none"])
def test_tied_weights_stay_tied_when_it_is_trained_and_saved(tied, tmp_path):
    loaded = small_model("encoder_decoder", tied=tied, **ODD)
    save(loaded, tmp_path / "a") if (tmp_path / "a").mkdir() is None else None
    model = reloaded(tmp_path / "a")
    weights = (
        model.encoder.input.embedding.weight, model.decoder.input.embedding.weight, model.output.weight
    )  # fmt: skip
    ours = loaded.model.get_parameter
    same = [
        ours(one) is ours(other)
        for one, other in (
            ("encoder.input.embedding.weight", "decoder.input.embedding.weight"),
            ("decoder.input.embedding.weight", "output.weight"),
        )
    ]
    assert [weights[0] is weights[1], weights[1] is weights[2]] == same
    ids = torch.tensor([[4, 5, 3]])
    model(input_ids=ids, labels=ids).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.save_pretrained(tmp_path / "b")
    again = reloaded(tmp_path / "b")
    torch.testing.assert_close(
        again(input_ids=ids, labels=ids).logits, model(input_ids=ids, labels=ids).logits
    )


def test_texts_that_spell_special_tokens_have_the_same_ids(tmp_path):
    tokenizer = train_tokenizer(["a </s> b <s>"], "bpe", TokenizerSettings(kind="bpe", vocab_size=60))
    loaded = dataclasses.replace(
        small_model("decoder_only", vocab_size=tokenizer.vocab_size, **ODD),
        tokenizer_pair=TokenizerPair(tokenizer, tokenizer),
    )
    save(loaded, tmp_path)
    assert failures(loaded, tmp_path, ["a </s> b <s> <pad>", "b  a"]) == []


@pytest.mark.usefixtures("answered_here")
def test_a_wrong_weight_fails_the_certificate(tmp_path, monkeypatch):
    right = huggingface_folder.model_tensors

    def wrong(model):
        return {name: -each if name.endswith("outer.weight") else each for name, each in right(model).items()}

    monkeypatch.setattr(huggingface_folder, "model_tensors", wrong)
    with pytest.raises(RunError, match="transformers does not compute what regard does"):
        export_to_huggingface(small_model("encoder_decoder", **ODD), tmp_path / "out", texts=TEXTS)
    assert not [*tmp_path.iterdir()]


def test_the_command_says_that_the_folder_has_code(untrained, tmp_path, capsys):
    (tmp_path / "texts").write_text("1 2 3\n", "utf-8")
    command = ["export", str(untrained), "--to", "hf", "--out", str(tmp_path / "out")]
    assert run([*command, "--texts", str(tmp_path / "texts")]) == 0
    printed = capsys.readouterr()
    own = (tmp_path / "out/modeling_regard.py").exists()
    assert ("trust_remote_code=True" in printed.err) == own
    assert ("trust_remote_code=True" in (tmp_path / "out/README.md").read_text("utf-8")) == own


def test_what_transformers_does_not_have_is_refused_by_name(tmp_path, monkeypatch, encoder_folder):
    import regard

    with pytest.raises(NotExpressible, match="quantization = 'int8'"):
        save(small_model("decoder_only"), tmp_path, "int8")
    with pytest.raises(UserError, match="encoder_only"):
        save(regard.load(encoder_folder("none"), device="cpu"), tmp_path)
    monkeypatch.setitem(POSITIONS.added, "own", PositionalEncoding("nowhere", lambda *_: nn.Identity()))
    with pytest.raises(NotExpressible, match="positions = 'own'"):
        save(small_model("decoder_only", positions="own"), tmp_path)


@pytest.mark.parametrize("quantization", ["float16", "bfloat16"])
def test_weights_of_16_bits(quantization, tmp_path):
    loaded = small_model("encoder_decoder", **ODD)
    save(loaded, tmp_path, quantization)
    from regard.exports.huggingface_process import answer

    found, _ = compared(OWN, loaded, tmp_path, TEXTS, quantization, most_new=2, compute=answer)
    assert 0 < found.log_probs.largest_difference <= found.bounds.log_prob


def test_without_transformers_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_folder, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="needs transformers") as error:
        export_to_huggingface(small_model("decoder_only", **ODD), tmp_path / "out", texts=TEXTS)
    assert "regard[hf]" in error.value.hint
