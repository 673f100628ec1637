"""A model as a package of Argos Translate, an .argosmodel file, which LibreTranslate reads too.

It has a model of CTranslate2 and a file of SentencePiece. Argos Translate gives each text to SentencePiece,
the pieces to CTranslate2 with arguments of its own, and joins the pieces of the output.
"""

import hashlib
import io
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import UserError
from regard.exports.argos_comparison import compare_packages
from regard.exports.certificate import Quantization
from regard.exports.certified_export import CERTIFICATE, compared, failed, origin
from regard.exports.ctranslate2_calls import ARGOS_MOST_READ, SEARCH_DEFAULTS
from regard.exports.ctranslate2_folder import CTRANSLATE2, pieces
from regard.exports.ctranslate2_folder import save as save_engine_files
from regard.exports.language_names import LANGUAGE_NAMES
from regard.exports.refusal import NotExpressible
from regard.exports.registered_kinds import refuse_registered_kinds
from regard.exports.sentencepiece_file import engine_pieces, refuse_other_kinds, sentencepiece_file
from regard.exports.unapplied_defaults import UNAPPLIED, unapplied_defaults, unapplied_line
from regard.models.config import ModelConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.folder import replace_file
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name
from regard.weights.strict_json import json_bytes

ENGINE = "Argos Translate"
SUFFIX = ".argosmodel"
ARGOS_VERSION = "1.11"  # for which the package is made
TIME = (1980, 1, 1, 0, 0, 0)  # of the files: the same package has the same bytes
LANGUAGES = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")


def export_to_argos(
    loaded: LoadedModel,
    out: Path,
    *,
    languages: str | None = None,
    quantization: Quantization = "float32",
    texts: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write the file `out`; returns its certificate. `languages` are two codes: "en-de".

    Raises:
        NotExpressible: CTranslate2, SentencePiece or Argos Translate does not have a setting of the model.
        RunError: its outputs are further from regard's than the certificate allows; nothing is written.
        MissingExtra: ctranslate2 or sentencepiece is not installed.
    """
    refuse_registered_kinds(ENGINE, loaded.config)
    source, target = _languages(languages, loaded)
    if out.suffix != SUFFIX:
        raise UserError(f"{out} does not end in {SUFFIX}", f"write --out {out.name}{SUFFIX}")
    refuse_other_models(loaded.config, loaded.generation, loaded.tokenizers)
    file = sentencepiece_file(loaded.tokenizers.source)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        model.mkdir()
        save_engine_files(loaded, model, quantization, names=_names, more=file.variants)
        comparison, facts = compared(
            replace(CTRANSLATE2, key="argos", names=_names), loaded, model, texts, quantization
        )
        files = {
            "metadata.json": json_bytes(_metadata(source, target)),
            "sentencepiece.model": file.content,
            **{f"model/{path.name}": path.read_bytes() for path in sorted(model.iterdir())},
        }
        name = f"translate-{source}_{target}-1_0"
        package = Path(folder) / "package.argosmodel"
        package.write_bytes(_zipped(name, files))
        (Path(folder) / "sentencepiece.model").write_bytes(file.content)
        argos = compare_packages(
            package,
            loaded,
            texts,
            quantization,
            numbers=_numbers(loaded, file.variants),
            codes=(source, target),
        )
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    unapplied = {UNAPPLIED: unapplied_defaults(loaded, SEARCH_DEFAULTS)}
    certificate = {**facts, **unapplied, "files": hashes, **comparison.to_dict(), "argos": argos.to_dict()}
    certificate["versions"] |= argos.versions
    if failures := [*comparison.failures, *argos.failures]:
        raise failed(ENGINE, failures, quantization, loaded.config)
    card = _card(loaded, quantization, source, target).encode()
    everything = {**files, CERTIFICATE: json_bytes(certificate), "README.md": card}
    replace_file(out.expanduser(), _zipped(name, everything))
    return certificate


def _languages(languages: str | None, loaded: LoadedModel) -> tuple[str, str]:
    """The codes of source and target: those given, else those of a model whose name is two codes."""
    given = loaded.path.resolve().name if languages is None else languages
    if (found := LANGUAGES.fullmatch(given)) is None:
        problem = (
            "the languages of the model are unknown" if languages is None else f"{given!r} is not two codes"
        )
        raise UserError(problem, "give --languages en-de, the codes of source and target")
    return found[1], found[2]


def refuse_other_models(
    config: ModelConfig, generation: Mapping[str, Any], tokenizers: TokenizerPair
) -> None:
    """Raise a UserError for a model that such a package cannot have, besides what CTranslate2 refuses."""
    refuse_registered_kinds(ENGINE, config)
    if not isinstance(config, EncoderDecoderConfig):
        raise UserError(f"{ENGINE} has no {config.kind} models", "encoder_decoder models can be exported")
    if config.positions == "learned" and config.max_positions < ARGOS_MOST_READ:
        raise NotExpressible(
            ENGINE,
            "max_positions",
            config.max_positions,
            f"it reads {ARGOS_MOST_READ} tokens: have as many",
        )
    if (forced := generation.get("forced_bos_id")) is not None:
        raise NotExpressible(ENGINE, "forced_bos_id", forced, "a model of one language pair has none")
    refuse_other_kinds(tokenizers.target)


def _names(tokenizer: Tokenizer) -> list[str]:
    return engine_pieces(tokenizer, pieces(tokenizer))


def _numbers(loaded: LoadedModel, variants: Mapping[str, int]) -> dict[str, int]:
    """The id of each piece of a source."""
    return {name: number for number, name in enumerate(_names(loaded.tokenizers.source))} | dict(variants)


def _metadata(source: str, target: str) -> dict[str, Any]:
    return {
        "package_version": "1.0",
        "argos_version": ARGOS_VERSION,
        "type": "translate",
        "from_code": source,
        "from_name": LANGUAGE_NAMES.get(source, source),
        "to_code": target,
        "to_name": LANGUAGE_NAMES.get(target, target),
    }


def _zipped(name: str, files: Mapping[str, bytes]) -> bytes:
    """An archive with one folder of this name."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(
                zipfile.ZipInfo(f"{name}/{path}", TIME), content, zipfile.ZIP_DEFLATED, compresslevel=6
            )
    return written.getvalue()


def _card(loaded: LoadedModel, quantization: Quantization, source: str, target: str) -> str:
    """What the package is, as Markdown; Argos Translate shows it."""
    return f"""# {model_name(loaded)} for Argos Translate

Translates from {LANGUAGE_NAMES.get(source, source)} to {LANGUAGE_NAMES.get(target, target)}.
{origin(quantization)}.

Argos Translate splits texts into sentences by models of its own, which it downloads, translates by a beam
of 4 whose scores are divided by the length to the power of 0.2, and writes spaces for underscores.
{unapplied_line(loaded, SEARCH_DEFAULTS, "It does")}"""
