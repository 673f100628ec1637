"""ELECTRA (Clark et al. 2020): the discriminator, and the generator."""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from regard.models.encoder_only import EncoderOnlyConfig, Head
from regard.weights.families.bert import BERT, HEADS
from regard.weights.families.family import ConfigReader
from regard.weights.names import Entry, linear, same

DISCRIMINATOR, GENERATOR = r"^discriminator_predictions\.", r"^generator_(predictions|lm_head)\."


class ELECTRA(BERT):
    """ELECTRA: BERT without a pooler, with embeddings that may be narrower than the states."""

    name = "electra"
    prefix = "electra"
    class_prefix = "Electra"
    heads: ClassVar = {**HEADS, "ForPreTraining": "replaced_tokens"}
    ties: ClassVar = {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"}
    unused: ClassVar = {
        "masked_language_model": (DISCRIMINATOR,),
        "replaced_tokens": (GENERATOR,),
        **dict.fromkeys(
            ("classification", "regression", "tokens", "spans", "none"), (DISCRIMINATOR, GENERATOR)
        ),
    }

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        return [*super().old_names(names), (r"^(?=embeddings_project\.)", "electra.")]

    def embedding_size(self, settings: ConfigReader) -> int | None:
        settings.unused(*(f"summary_{what}" for what in SUMMARY))  # of heads for multiple choice
        width = settings.take(int, "embedding_size", default=128)
        return None if width == settings.take(int, "hidden_size") else width

    def head_activation(self, head: Head, activation: str) -> str | None:
        if head == "replaced_tokens":
            return activation
        return "gelu" if head in ("masked_language_model", "classification", "regression") else None

    def write(self, config: EncoderOnlyConfig, labels: Any) -> dict[str, Any]:
        return {**super().write(config, labels), "embedding_size": config.embedding_size or config.d_model}

    def table(self, config: EncoderOnlyConfig) -> list[Entry]:
        entries = super().table(config)
        if (config.embedding_size or config.d_model) != config.d_model:
            entries += linear("encoder.input.projection", "electra.embeddings_project")
        return entries

    def head_table(self, config: EncoderOnlyConfig) -> list[Entry]:
        match config.head:
            case "masked_language_model":
                return [
                    *linear("head.transform", "generator_predictions.dense"),
                    *linear("head.norm", "generator_predictions.LayerNorm"),
                    same("head.output.bias", "generator_lm_head.bias"),
                ]
            case "replaced_tokens":
                return [
                    *linear("head.transform", "discriminator_predictions.dense"),
                    *linear("head.output", "discriminator_predictions.dense_prediction"),
                ]
            case "classification" | "regression":
                layer = linear("head.pooler.layer", "classifier.dense")
                return [*layer, *linear("head.output", "classifier.out_proj")]
        return super().head_table(config)


SUMMARY = ("type", "use_proj", "activation", "last_dropout", "first_dropout", "hidden_size", "proj_to_labels")
