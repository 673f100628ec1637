"""The settings of a model of regard, for transformers."""

from typing import Any

from transformers import PretrainedConfig


class RegardConfig(PretrainedConfig):
    """The settings in `settings` are those of regard's own config.json; `kind` is its kind.

    `rotary` has the frequency of each pair of features that is rotated, and the factor of what is rotated.
    """

    model_type = "regard"

    def __init__(
        self,
        kind: str = "encoder_decoder",
        settings: dict[str, Any] | None = None,
        rotary: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.kind, self.settings, self.rotary = kind, settings or {}, rotary
        given = self.settings
        self.hidden_size = given.get("d_model", 0)
        self.num_attention_heads = given.get("num_heads", 0)
        self.num_hidden_layers = given.get("num_layers") or given.get("num_decoder_layers", 0)
        self.vocab_size = given.get("vocab_size") or given.get("tgt_vocab_size", 0)
        others.setdefault("is_encoder_decoder", kind == "encoder_decoder")
        others.setdefault("tie_word_embeddings", given.get("tied") not in (False, "none"))
        super().__init__(**others)
