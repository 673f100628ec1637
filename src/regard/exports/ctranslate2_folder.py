"""A model as a folder that CTranslate2 reads."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from regard.data.odd_spaces import replaced_spaces
from regard.data.tokenizer import Tokenizer
from regard.errors import RunError, UserError
from regard.exports.certificate import BOUNDS, Bounds, Quantization
from regard.exports.certified_export import Target, begins, export_certified, origin
from regard.exports.ctranslate2_calls import CONTINUATION_CALL, IN_CALL, translation_call
from regard.exports.ctranslate2_decoder_only import decoder_only_spec
from regard.exports.ctranslate2_encoder_decoder import encoder_decoder_spec
from regard.exports.ctranslate2_layers import most_positions, norm_epsilon
from regard.exports.ctranslate2_package import ctranslate2
from regard.exports.ctranslate2_settings import ENGINE, refuse_other_settings
from regard.exports.model_weights import ModelWeights
from regard.exports.unapplied_defaults import unapplied_line
from regard.fast.int8 import has_vnni
from regard.models.config import ModelConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name

SOURCE_EMBEDDING = "encoder.input.embedding.weight"
APPLIED = frozenset({"begin"})  # the decoding default that the code of the README.md has


def pieces(tokenizer: Tokenizer) -> list[str]:
    """The piece of each id; an id without one, or with that of another id, is called by its number."""
    special = [tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id]
    names = tokenizer.names(range(tokenizer.vocab_size))
    owners = {names[number]: number for number in reversed([*special, *range(len(names))])}
    return [name if owners[name] == number else f"<id {number}>" for number, name in enumerate(names)]


def save(
    loaded: LoadedModel,
    folder: Path,
    quantization: Quantization = "float32",
    *,
    names: Callable[[Tokenizer], list[str]] = pieces,
    more: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Write CTranslate2's own files of a model into a folder.

    `names` are the pieces of ids. `more` are other names of source ids, which get embeddings of their own.

    Raises:
        NotExpressible: CTranslate2 does not have a setting of the model.
    """
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    vocabularies = names(source), names(target)
    special = {}
    for name in ("unk", "bos", "eos"):
        of_source, special[name] = (
            names[getattr(each, f"{name}_id")]
            for names, each in zip(vocabularies, (source, target), strict=True)
        )
        if of_source != special[name]:
            raise UserError(
                f"the {name} token is {of_source!r} in the source and {special[name]!r} in the target",
                "CTranslate2 has one name for both: train tokenisers of one kind",
            )
    tensors = dict(loaded.model.state_dict())
    if more:
        embedding = tensors[SOURCE_EMBEDDING]
        tensors[SOURCE_EMBEDDING] = torch.cat([embedding, embedding[[*more.values()]]])
        vocabularies = [*vocabularies[0], *more], vocabularies[1]
    write_engine_files(loaded.config, tensors, vocabularies, special, folder, quantization)


def write_engine_files(
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    vocabularies: tuple[list[str], list[str]],
    special: Mapping[str, str],
    folder: Path,
    quantization: Quantization = "float32",
) -> None:
    """As `save`, from weights by name; `special` has the pieces called "unk", "bos" and "eos"."""
    known = refuse_other_settings(config)
    ctranslate2()
    with ModelWeights.all_of(tensors) as weights:
        if isinstance(known, EncoderDecoderConfig):
            spec = encoder_decoder_spec(known, weights)
            spec.register_source_vocabulary(vocabularies[0])
            spec.register_target_vocabulary(vocabularies[1])
            spec.config.add_source_eos = True
            spec.config.decoder_start_token = special["bos"]
        else:
            spec = decoder_only_spec(known, weights)
            spec.register_vocabulary(vocabularies[1])
    for name, piece in special.items():
        setattr(spec.config, f"{name}_token", piece)
    spec.config.layer_norm_epsilon = norm_epsilon(known)
    try:
        spec.validate()
    except ValueError as error:
        raise RunError(f"CTranslate2 refuses the specification: {error}", "please report this") from error
    spec.optimize(quantization)
    spec.save(str(folder))


def _card(loaded: LoadedModel, quantization: Quantization) -> str:
    """How to use the folder, as Markdown. The arguments are the certificate's, not CTranslate2's defaults."""
    files = loaded.tokenizers.files()
    source = "source_tokenizer.json" if "source_tokenizer.json" in files else "tokenizer.json"
    target = "target_tokenizer.json" if "target_tokenizer.json" in files else "tokenizer.json"
    if isinstance(loaded.config, EncoderDecoderConfig):
        engine = "Translator"
        call = translation_call(loaded.generation)
        found = "hypotheses"
    else:
        begin = pieces(loaded.tokenizers.target)[loaded.tokenizers.target.bos_id]
        engine, prompt = "Generator", f'["{begin}", *pieces]' if begins(loaded) else "pieces"
        call = CONTINUATION_CALL.format(prompt=prompt)
        found = "sequences"
    as_read = _as_read(loaded) if engine == "Translator" else ""
    return f"""# {model_name(loaded)} for CTranslate2

{origin(quantization)}.

```python
import ctranslate2, tokenizers

engine = ctranslate2.{engine}("THIS FOLDER")
source = tokenizers.Tokenizer.from_file("THIS FOLDER/{source}")
target = tokenizers.Tokenizer.from_file("THIS FOLDER/{target}")
text = "a text"{as_read}
pieces = source.encode(text, add_special_tokens=False).tokens
[answer] = engine.{call}
print(target.decode([target.token_to_id(piece) for piece in answer.{found}[0]]))
```
{unapplied_line(loaded, _applied(loaded), "This code does")}"""


def _as_read(loaded: LoadedModel) -> str:
    """Code that makes of a text what regard's translator reads: no white space around it, known spaces."""
    replaced = replaced_spaces(loaded.tokenizers.source)
    return ".strip()" + (f".translate(str.maketrans({replaced!a}))" if replaced else "")


def _applied(loaded: LoadedModel) -> frozenset[str]:
    """The names of the decoding defaults that the code of the README.md applies."""
    return APPLIED | IN_CALL if isinstance(loaded.config, EncoderDecoderConfig) else APPLIED


def _bounds(config: ModelConfig, quantization: Quantization) -> Bounds:
    """The usual bounds, but wider ones for int8 on a processor without VNNI instructions.

    There CTranslate2's oneDNN, which it chooses on all processors but Intel's, adds two products in 16 bits,
    which overflow: the differences are twice as large (docs/leaving-and-arriving.md).
    """
    usual = BOUNDS[quantization]
    if quantization != "int8" or has_vnni():
        return usual
    return replace(
        usual, equal_greedy=0.3, equal_beam=0.35, equal_tokens=0.75, log_prob=8.0, mean_log_prob=0.4
    )


CTRANSLATE2 = Target(
    name=ENGINE,
    key="ctranslate2",
    process="regard.exports.ctranslate2_process",
    known=refuse_other_settings,
    most_positions=most_positions,
    save=save,
    card=_card,
    applied=_applied,
    names=pieces,
    bounds=_bounds,
)
export_to_ctranslate2 = partial(export_certified, CTRANSLATE2)
