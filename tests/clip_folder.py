"""A small CLIP with random weights, written by transformers, which also judges what it computes."""

import json
from pathlib import Path

import torch

MERGES = ["p h", "ph o", "pho t", "phot o</w>", "o f</w>", "c a", "ca t</w>", "d o", "do g</w>", "1 2</w>"]
SPECIAL = ["<|startoftext|>", "<|endoftext|>"]


def vocabulary() -> list[str]:
    """The pieces: each byte, each byte at the end of a word, the merged ones, the special tokens."""
    from tokenizers.pre_tokenizers import ByteLevel

    alphabet = sorted(ByteLevel.alphabet())
    merged = [merge.replace(" ", "") for merge in MERGES]
    return [*alphabet, *(f"{piece}</w>" for piece in alphabet), *merged, *SPECIAL]


VOCAB = 2 * 256 + len(MERGES) + len(SPECIAL)
START, END = VOCAB - 2, VOCAB - 1
TEXT = {
    "vocab_size": VOCAB,
    "hidden_size": 12,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 11,
    "bos_token_id": START,
    "eos_token_id": END,
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 19,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 12,
    "patch_size": 4,
}
CLASSES = {  # which towers, and whether they have a projection -> the class of transformers
    "both": "CLIPModel",
    "text": "CLIPTextModelWithProjection",
    "text, bare": "CLIPTextModel",
    "images": "CLIPVisionModelWithProjection",
    "images, bare": "CLIPVisionModel",
}
TEXTS = [[4, 9, 300, 7, 2], [], [511, 2], [8] * 9]  # of unequal lengths, the last fills all positions


def padded(pad=1, end=END):
    """The ids of TEXTS between start and end, padded on the right, and their lengths."""
    rows = [[START, *text, end] for text in TEXTS]
    lengths = torch.tensor([len(row) for row in rows])
    ids = [row + [pad] * (max(lengths) - len(row)) for row in rows]
    return torch.tensor(ids), lengths


def mask_of(ids, lengths):
    return (torch.arange(ids.size(1)) < lengths[:, None]).long()


def pictures(settings):
    size, channels = settings["image_size"], settings.get("num_channels", 3)
    return torch.randn(3, channels, size, size, generator=torch.Generator().manual_seed(4))


def clip(
    folder: Path, kind: str = "both", *, text=None, vision=None, seed=0, tokens: str | None = "json", **others
):
    """Writes the folder and returns the model of transformers; `others` are settings of its config.json.

    `tokens`: "json" writes tokenizer.json, "old" vocab.json with merges.txt, and None no tokeniser.
    """
    import transformers

    text, vision = {**TEXT, **(text or {})}, {**VISION, **(vision or {})}
    if kind == "both":
        settings = {"projection_dim": 10, **others}
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, **settings)
    elif kind.startswith("text"):
        config = transformers.CLIPTextConfig(**{"projection_dim": 10, **text, **others})
    else:
        config = transformers.CLIPVisionConfig(**{"projection_dim": 10, **vision, **others})
    config._attn_implementation = "eager"
    model = getattr(transformers, CLASSES[kind])(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():  # no weight as transformers makes it, which changes with its version
        for name, weight in model.named_parameters():
            is_gain = "norm" in name and name.endswith("weight")
            weight.copy_(is_gain + 0.3 * torch.randn(weight.shape, generator=generator))
            if name == "logit_scale":
                weight.fill_(config.logit_scale_init_value)
    model.save_pretrained(folder)
    if not kind.startswith("text"):
        write_preprocessor(folder, pixels=vision["image_size"], channels=vision.get("num_channels", 3))
    if not kind.startswith("images") and tokens is not None:
        write_tokenizer(folder, old=tokens == "old")
    return model


def write_preprocessor(folder: Path, *, pixels: int = 12, channels: int = 3, **changes) -> None:
    """Writes preprocessor_config.json as transformers does, with other settings."""
    text = preprocessor(pixels=pixels, channels=channels, **changes)
    (folder / "preprocessor_config.json").write_text(text, "utf-8")


def preprocessor(*, pixels: int = 12, channels: int = 3, **changes) -> str:
    """The text of preprocessor_config.json; settings that are None are left out."""
    table = {
        "image_processor_type": "CLIPImageProcessor",
        "crop_size": {"height": pixels, "width": pixels},
        "do_center_crop": True,
        "do_convert_rgb": channels == 3,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073][:channels],
        "image_std": [0.26862954, 0.26130258, 0.27577711][:channels],
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"shortest_edge": pixels},
        **changes,
    }
    return json.dumps({name: value for name, value in table.items() if value is not None})


def write_tokenizer(folder: Path, *, old: bool) -> None:
    """Writes tokenizer.json, as the tokeniser of transformers does; or the two older files alone."""
    numbers = {piece: number for number, piece in enumerate(vocabulary())}
    if old:
        (folder / "vocab.json").write_text(json.dumps(numbers), "utf-8")
        merges = "".join(f"{merge}\n" for merge in ["#version: 0.2", *MERGES])
        (folder / "merges.txt").write_text(merges, "utf-8")
        return
    import transformers

    pairs = [tuple(merge.split(" ")) for merge in MERGES]
    transformers.CLIPTokenizer(vocab=numbers, merges=pairs).save_pretrained(folder)


def change(folder: Path, file: str, **settings) -> None:
    """Changes settings of a JSON file of the folder; None removes one."""
    table = json.loads((folder / file).read_text("utf-8")) | settings
    kept = {name: value for name, value in table.items() if value is not None or name not in settings}
    (folder / file).write_text(json.dumps(kept), "utf-8")
