"""Models of registered kinds: ONNX graphs are traced from their code, which other engines cannot have."""

from regard.exports.refusal import NotExpressible
from regard.models.build import base_kind, is_registered
from regard.models.config import ModelConfig

TRACED = ("encoder_decoder", "decoder_only", "encoder_only")  # the kinds that become graphs
# What to do if a graph of such a model computes something else.
TRACED_CALLS = (
    "graphs are traced from encode and extend of a model, or forward of an encoder: its"
    " other methods have to compute the same"
)


def refuse_registered_kinds(engine: str, config: ModelConfig) -> None:
    """Raise NotExpressible for a model of a registered kind: its code does not go with its weights."""
    if is_registered(config):
        way_out = "regard export --to onnx and --to web trace its code"
        nearest = way_out if base_kind(config) in TRACED else "models of regard's own kinds can be exported"
        raise NotExpressible(
            engine,
            "kind",
            config.kind,
            f"a registered model has code of its own, which stays here; {nearest}",
        )
