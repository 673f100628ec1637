"""Models of regard for transformers: encoder-decoders and decoder-only models.

All of their settings are here, registered parts excepted. It needs torch and transformers only. The weights
have regard's own names; those of a decoder-only model begin with "decoder.".
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast, Seq2SeqLMOutput

from .configuration_regard import RegardConfig
from .layers_regard import Stack


class RegardPreTrainedModel(PreTrainedModel):
    """What both kinds share."""

    config_class = RegardConfig
    base_model_prefix = ""
    _supports_sdpa = True
    _supports_cache_class = True

    def _init_weights(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            if name == "bias":
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=self.config.hidden_size**-0.5)
            else:
                nn.init.ones_(parameter)


class RegardForCausalLM(RegardPreTrainedModel, GenerationMixin):
    """A decoder-only model."""

    def __init__(self, config: RegardConfig) -> None:
        super().__init__(config)
        given = config.settings
        self.decoder = Stack(config, given["vocab_size"], given["num_layers"], encodes=False, crosses=False)
        self.output = nn.Linear(given["d_model"], given["vocab_size"], bias=False)
        if given["tied"]:
            self._tied_weights_keys = {"output.weight": "decoder.input.embedding.weight"}
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.input.embedding

    def get_output_embeddings(self) -> nn.Module:
        return self.output

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, past_key_values: Any = None,
        labels: Tensor | None = None, use_cache: bool | None = None, logits_to_keep: int = 0, **others: Any,
    ) -> CausalLMOutputWithPast:  # fmt: skip
        """Logits of the next ids; with `labels` also the mean loss of those that are not -100."""
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        x = self.decoder(input_ids, attention_mask, past_key_values)
        logits = self.output(x[:, -logits_to_keep:] if logits_to_keep else x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)


class RegardForConditionalGeneration(RegardPreTrainedModel, GenerationMixin):
    """An encoder-decoder; a source ends in the end token."""

    def __init__(self, config: RegardConfig) -> None:
        super().__init__(config)
        given = config.settings
        self.encoder = RegardEncoder(
            config, given["src_vocab_size"], given["num_encoder_layers"], encodes=True, crosses=False
        )
        self.decoder = Stack(
            config, given["tgt_vocab_size"], given["num_decoder_layers"], encodes=False, crosses=True
        )
        self.output = nn.Linear(given["d_model"], given["tgt_vocab_size"], bias=given["output_bias"])
        ties = {}
        if given["tied"] in ("all", "embeddings"):
            ties["decoder.input.embedding.weight"] = "encoder.input.embedding.weight"
        if given["tied"] in ("all", "target"):
            first = "encoder" if given["tied"] == "all" else "decoder"
            ties["output.weight"] = f"{first}.input.embedding.weight"
        self._tied_weights_keys = ties
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        return self.encoder

    def get_decoder(self) -> nn.Module:
        return self.decoder

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.input.embedding

    def get_output_embeddings(self) -> nn.Module:
        return self.output

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None, decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None, past_key_values: Any = None, labels: Tensor | None = None,
        use_cache: bool | None = None, **others: Any,
    ) -> Seq2SeqLMOutput:  # fmt: skip
        """Logits of the next target ids; with `labels` also the mean loss of those that are not -100."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        memory = encoder_outputs[0]
        if attention_mask is None:
            attention_mask = torch.ones(memory.shape[:2], dtype=torch.long, device=memory.device)
        attention_mask = read(attention_mask, self.config.settings)
        if labels is not None and decoder_input_ids is None:
            first = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
            shifted = labels[:, :-1].masked_fill(labels[:, :-1] == -100, self.config.pad_token_id)
            decoder_input_ids = torch.cat([first, shifted], dim=1)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        x = self.decoder(decoder_input_ids, decoder_attention_mask, past_key_values, memory, attention_mask)
        scale = self.config.settings["d_model"] ** -0.5 if self.config.settings["scaled_output"] else 1.0
        logits = self.output(x * scale)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, past_key_values=past_key_values, encoder_last_hidden_state=memory
        )


class RegardEncoder(Stack):
    """A stack that reads the source."""

    main_input_name = "input_ids"

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **others: Any
    ) -> BaseModelOutput:
        """The states of the source."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        mask = read(attention_mask, self.config.settings)
        return BaseModelOutput(last_hidden_state=super().forward(input_ids, mask))


def read(mask: Tensor, settings: dict[str, Any]) -> Tensor:
    """The mask of a source, without its end where the model does not attend to it."""
    if settings.get("source_end", True):
        return mask
    positions = mask.cumsum(-1)
    length = positions[:, -1:]
    return mask * ((positions < length) | (length < 2))
