"""What is compared with transformers: random models of a family with some settings of their config.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

SPECIAL_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TINY = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 21}
DECODER = {**TINY, **SPECIAL_TOKENS, "vocab_size": 61, "max_position_embeddings": 40}
ENCODER = {**TINY, "vocab_size": 43, "max_position_embeddings": 14}
SEQUENCES = {
    "vocab_size": 47, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 21, "decoder_ffn_dim": 21, "max_position_embeddings": 16,
    "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}  # fmt: skip
IMAGES = {**TINY, "image_size": 12, "patch_size": 4}
GROUPED = {**DECODER, "num_key_value_heads": 2}
SMALLEST: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # family -> its usual class, and small sizes
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", GROUPED),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 4}),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "gemma": ("GemmaForCausalLM", {**GROUPED, "head_dim": 4}),
    "gemma2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 4, "sliding_window": 3}),
    "gemma3_text": ("Gemma3ForCausalLM", {**GROUPED, "head_dim": 4, "sliding_window": 3}),
    "gpt2": (
        "GPT2LMHeadModel",
        {
            **SPECIAL_TOKENS, "vocab_size": 53, "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 20,
            "n_inner": 21,
        },
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", {**DECODER, "hidden_size": 32}),
    "phi": ("PhiForCausalLM", {**GROUPED, "hidden_size": 32}),
    "bert": ("BertModel", ENCODER),
    "roberta": ("RobertaModel", {**ENCODER, "max_position_embeddings": 16}),
    "xlm-roberta": ("XLMRobertaModel", {**ENCODER, "max_position_embeddings": 16}),
    "distilbert": (
        "DistilBertModel",
        {
            "vocab_size": 37, "dim": 16, "n_heads": 4, "n_layers": 2, "hidden_dim": 19,
            "max_position_embeddings": 13,
        },
    ),
    "electra": ("ElectraModel", {**ENCODER, "embedding_size": 16}),
    "modernbert": (
        "ModernBertModel",
        {
            **ENCODER, "max_position_embeddings": 30, "local_attention": 4, "pad_token_id": 0,
            "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
        },
    ),
    "marian": ("MarianMTModel", {**SEQUENCES, "decoder_start_token_id": 1}),
    "bart": ("BartForConditionalGeneration", SEQUENCES),
    "mbart": ("MBartForConditionalGeneration", SEQUENCES),
    "m2m_100": ("M2M100ForConditionalGeneration", SEQUENCES),
    "pegasus": ("PegasusForConditionalGeneration", {**SEQUENCES, "decoder_start_token_id": 1}),
    "t5": (
        "T5ForConditionalGeneration",
        {
            "vocab_size": 47, "d_model": 16, "num_heads": 4, "d_kv": 4, "d_ff": 21, "num_layers": 2,
            "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
        },
    ),
    "vit": ("ViTForImageClassification", IMAGES),
    "deit": ("DeiTForImageClassification", IMAGES),
    "whisper": ("WhisperForConditionalGeneration", {}),  # the sizes of tests/whisper_folder.py
    "clip": ("CLIPModel", {}),  # this and the next: the sizes of tests/clip_folder.py
    "clip_text_model": ("CLIPTextModelWithProjection", {}),
    "clip_vision_model": ("CLIPVisionModelWithProjection", {}),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """A random model of the class `model` of transformers; `settings` are those of its config.json.

    Those of a tower of CLIP have its object in their names: `text_config.hidden_act`.
    """

    family: str
    name: str
    model: str
    settings: Mapping[str, Any]
    untied: bool = False  # the output has a matrix of its own, which the class does not make
    files: Mapping[str, str] | None = None  # others of the folder, by their names
    older: Mapping[str, Any] | None = None  # what an older version has in config.json; None: it has no such

    def __str__(self) -> str:
        return f"{self.family}, {self.name}" if self.name else self.family

    @property
    def written(self) -> Mapping[str, Any]:
        """The settings of config.json that the case names, its class among them."""
        return {**self.settings, "architectures": [self.model]}


def cases(
    family: str, changes: Mapping[str, Mapping[str, Any]], sizes: Mapping[str, Any], *, model: str = ""
) -> list[Case]:
    """A case for each name in `changes`: settings besides `sizes`, and `model` if its class is another."""
    return [
        Case(
            family=family,
            name=name,
            model=settings.get("model", model or SMALLEST[family][0]),
            settings={**sizes, **{key: value for key, value in settings.items() if key != "model"}},
            untied=family == "t5" and settings.get("tie_word_embeddings") is False,
        )
        for name, settings in changes.items()
    ]


def once_a_family(cases: list[Case]) -> Any:
    """A mark of tests of a `pair`: for every change the first case of each family, the others nightly."""
    first = {case.family: case for case in reversed(cases)}
    marked = [
        pytest.param(case, marks=() if case is first[case.family] else pytest.mark.nightly) for case in cases
    ]
    return pytest.mark.parametrize("pair", marked, indirect=True, ids=str)


def smallest(
    family: str,
    changes: Mapping[str, Any],
    *,
    name: str = "smallest",
    files: Mapping[str, str] | None = None,
    older: Mapping[str, Any] | None = None,
) -> Case:
    """The smallest model of a family with other settings of config.json, which may be `architectures`."""
    usual, sizes = SMALLEST[family]
    [model] = changes.get("architectures", [usual])
    settings = {key: value for key, value in {**sizes, **changes}.items() if key != "architectures"}
    untied = family == "t5" and settings.get("tie_word_embeddings") is False
    return Case(
        family=family, name=name, model=model, settings=settings, untied=untied, files=files, older=older
    )


TOWERS = ("text_config", "vision_config")  # the objects of CLIP's config.json


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json with the settings of its towers as `text_config.hidden_act`."""
    towers = {name: table[name] for name in TOWERS if name in table}
    settings = {name: value for name, value in table.items() if name not in towers}
    return settings | {f"{name}.{key}": value for name in towers for key, value in towers[name].items()}


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json from its settings in the form of `flat`."""
    table: dict[str, Any] = {}
    for name, value in settings.items():
        tower, _, key = name.rpartition(".")
        (table.setdefault(tower, {}) if tower else table)[key] = value
    return table
