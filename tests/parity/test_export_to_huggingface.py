"""Models of the shapes that regard trains say in transformers what they say here."""

import json
from pathlib import Path

import pytest
import torch

from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.vision import VisionConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.pretrained import to_huggingface
from regard.weights.tensors import write_tensors

SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 17}
SIDES = {"num_encoder_layers": 2, "num_decoder_layers": 2, **SIZES}
LENGTHS = torch.tensor([7, 4, 2])
REAL = torch.arange(7) < LENGTHS[:, None]


def there(config, tmp_path, labels=()):
    """Our model with weights like trained ones, and what transformers makes of its folder."""
    import transformers

    ours = build_model(config, seed=4).eval()
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    loaded = LoadedModel(
        model=ours, config=config, tokenizer_pair=None, labels=labels, generation={}, path=Path("x")
    )
    _, files, _ = to_huggingface(loaded)
    for name, content in files.items():
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        else:
            write_tensors(tmp_path / name, content)
    architecture = json.loads(files["config.json"])["architectures"][0]
    theirs, reported = getattr(transformers, architecture).from_pretrained(tmp_path, output_loading_info=True)
    assert not reported["missing_keys"]
    assert not reported["unexpected_keys"]
    return ours, theirs.eval(), architecture


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {},  # the paper's
        {"position_layout": "split", "activation": "silu", "output_bias": True},
        {"tied": "target", "tgt_vocab_size": 19, "d_model": 15},
        {"bias": False, "qk_norm": False, "scaled_embedding": False},
    ],
    ids=str,
)
def test_the_paper_s_transformer_is_a_marian(settings, tmp_path):
    sizes = {"src_vocab_size": 23, "tgt_vocab_size": 23, **SIDES, **settings}
    ours, theirs, architecture = there(EncoderDecoderConfig(**sizes), tmp_path)
    assert architecture == "MarianMTModel"
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(4, 23, (3, 7), generator=generator).where(REAL, 0)
    tgt = torch.randint(4, sizes["tgt_vocab_size"], (3, 5), generator=generator)
    close(ours(src, LENGTHS, tgt), theirs(src, attention_mask=REAL.long(), decoder_input_ids=tgt).logits)


@torch.no_grad()
@pytest.mark.parametrize("bias", [True, False])
def test_a_decoder_is_a_gpt2(bias, tmp_path):
    config = DecoderOnlyConfig(vocab_size=29, num_layers=2, max_positions=9, bias=bias, **SIZES)
    ours, theirs, architecture = there(config, tmp_path)
    assert architecture == "GPT2LMHeadModel"
    ids = torch.randint(29, (2, 9), generator=torch.Generator().manual_seed(1))
    close(ours(ids), theirs(ids).logits)


@torch.no_grad()
@pytest.mark.parametrize("head", ["classification", "tokens", "masked_language_model", "pooled"])
@pytest.mark.parametrize("types", [0, 2])
def test_an_encoder_is_a_bert(head, types, tmp_path):
    labels = ("x", "y", "z") if head in ("classification", "tokens") else ()
    config = EncoderOnlyConfig(
        vocab_size=29, head=head, num_labels=len(labels), num_layers=2, num_token_types=types, **SIZES
    )
    ours, theirs, architecture = there(config, tmp_path, labels)
    assert architecture.startswith("Bert")
    ids = torch.randint(4, 29, (3, 7), generator=torch.Generator().manual_seed(1)).where(REAL, 0)
    here, said = ours(ids, LENGTHS), theirs(ids, attention_mask=REAL.long())
    if head == "pooled":
        close(here, said.pooler_output)
    elif head == "classification":
        close(here, said.logits)
        assert theirs.config.id2label == {0: "x", 1: "y", 2: "z"}
    else:
        close(here[REAL], said.logits[REAL])


@torch.no_grad()
def test_a_vision_transformer_is_a_vit(tmp_path):
    config = VisionConfig(num_labels=3, image_size=8, patch_size=4, channels=1, num_layers=2, **SIZES)
    ours, theirs, architecture = there(config, tmp_path, ("a", "b", "c"))
    assert architecture == "ViTForImageClassification"
    images = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    close(ours(images), theirs(images).logits)
