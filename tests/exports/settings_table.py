"""The documented table of settings, and the models that its rows are tested with."""

import ast
import dataclasses
import re
from pathlib import Path

from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from tests.exports.engine_models import small_model

PAGE = Path(__file__).parents[2] / "docs/leaving-and-arriving.md"
CELL = r" (\w+) \|"
TEXT = PAGE.read_text("utf-8")


def rows(heading, columns, text=r" `([^`]+)` \|"):
    """The cells of each row below a heading, in which the first is a name as code."""
    section = re.split(r"^#+ ", TEXT.split(f"# {heading}\n")[1], flags=re.MULTILINE)[0]
    return re.findall(rf"^\| `(\w+)` \|{text}{CELL * columns}$", section, re.MULTILINE)


TABLE = rows("Settings", 4)  # of CTranslate2 and of transformers, each for both kinds
GGUF_TABLE = rows("Settings of llama.cpp", 2)  # with rotary and with learned positions
KINDS_TABLE = {name: cells for name, *cells in rows("Kinds of models and tokenisers", 6, "")}
KINDS = {"encoder_decoder": EncoderDecoderConfig, "decoder_only": DecoderOnlyConfig}
COMPANIONS = {  # what a setting needs to have an effect, or to be possible in both bases
    "max_positions": {"positions": "learned"},
    "position_offset": {"positions": "learned"},
    "position_layout": {"positions": "sinusoidal", "position_offset": 2},
    "position_buckets": {"positions": "t5"},
    "position_distance": {"positions": "t5", "position_buckets": 8},
    "rotary_base": {"positions": "rotary"},
    "rotary_dim": {"positions": "rotary"},
    "rotary_scaling": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "num_heads": {"head_dim": 8, "num_kv_heads": None},
    "num_kv_heads": {"num_heads": 4},
    "d_model": {"head_dim": 6},
    "bias": {"qk_norm": True},
    "layer_types": {"window": 8},
    "local_rotary_base": {
        "positions": "rotary",
        "window": 8,
        "layer_types": ("sliding_attention", "full_attention"),
    },
    "parallel_residual": {"norm_position": "pre"},
}


def settings_of(kind, name, text):
    """The settings of a row; None if models of this kind do not have it."""
    value = ast.literal_eval(text)
    if name not in {field.name for field in dataclasses.fields(KINDS[kind])}:
        return None
    if name == "tied" and isinstance(value, bool) != (kind == "decoder_only"):
        return None
    return {**COMPANIONS.get(name, {}), name: value}


def model_of(kind, base, name, text):
    """A small model with the setting of a row; None if there is none."""
    settings = settings_of(kind, name, text)
    return None if settings is None else small_model(kind, base, **settings)
