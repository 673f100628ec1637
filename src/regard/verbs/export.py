"""`regard export`: a model for another engine, with a certificate of what that engine computes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.errors import UserError
from regard.exports.argos_package import export_to_argos
from regard.exports.certified_export import export_certified
from regard.exports.ctranslate2_folder import CTRANSLATE2
from regard.exports.encoder_export import export_encoder
from regard.exports.gguf_folder import GGUF
from regard.exports.huggingface_folder import export_to_huggingface
from regard.exports.onnx_encoder import ONNX_ENCODER
from regard.exports.onnx_folder import ONNX
from regard.exports.unapplied_defaults import unapplied_warning
from regard.exports.web_encoder import web_encoder
from regard.exports.web_folder import WEB, web_target
from regard.models.encoder_only import EncoderOnlyConfig
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.lines import lines_of
from regard.verbs.shared.runtime import Runtime
from regard.weights.new_folder import refuse_taken

TARGETS = {target.key: target for target in (CTRANSLATE2, GGUF, ONNX, WEB)}


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """The folder or file that was written, the target, and the content of its CERTIFICATE.json."""

    path: Path
    target: str
    certificate: dict[str, Any]

    def summary(self) -> str:
        """The certificate in a line; warnings and the comparison by Argos Translate in further lines."""
        if "labels" in self.certificate:
            return _encoder_summary(self.certificate)
        greedy, beam = self.certificate["greedy"], self.certificate["beam"]
        shares = ", ".join(
            f"{name} {share['equal']:.1%} equal" + (f" and {share['tied']:.1%} tied" if share["tied"] else "")
            for name, share in (("greedy", greedy), (f"beam {beam['size']}", beam))
        )
        largest = self.certificate["log_probs"]["largest_difference"]
        line = (
            f"certificate: {self.certificate['texts']['count']} texts, {shares};"
            f" log-probabilities within {largest:.1g} of regard's"
        )
        if (self.path / "modeling_regard.py").exists():
            line += (
                "\nwarning: no published family fits; the folder has code,"
                " and transformers loads it with trust_remote_code=True alone"
            )
        if "family_refused" in self.certificate:
            line += f"\n(a family has models of this shape, but {self.certificate['family_refused']})"
        if warning := unapplied_warning(self.certificate):
            line += f"\n{warning}"
        if "argos" in self.certificate:
            line += "\n" + _argos_summary(self.certificate["argos"])
        return line


@checked
def export(
    model: AnyModel,
    *,
    to: Literal["ctranslate2", "onnx", "web", "argos", "gguf", "hf"],
    out: str | Path,
    quantization: Literal["float32", "float16", "bfloat16", "int8"] = "float32",
    texts: str | Path | None = None,
    languages: str | None = None,
    runtime: str | Path | None = None,
    one_file: bool = False,
) -> ExportReport:
    """Write a model for another engine, with a certificate: what that engine computes.

    The engine reads the folder, or the package, in a process of its own. Its greedy outputs, beams and
    log-probabilities are compared with those of regard's plain model. The folder appears only if they agree
    within the bounds that its CERTIFICATE.json gives.

    Args:
        model: a model or run folder, en-de, or what `regard.load` returns.
        to: the target. "ctranslate2", "onnx" (with a decoding loop in Python) and "web" (a page in which the
            model runs) take encoder-decoders and decoder-only models; the last two also take encoders that
            classify texts, label words or predict masked tokens. "argos", a package of Argos Translate and
            LibreTranslate, takes encoder-decoders. "gguf", a file of llama.cpp, takes decoder-only models of
            Llama's and GPT-2's kinds. "hf" is a folder for transformers: of the published family that has
            this architecture, else with the model's code.
        out: the folder to write, or the .argosmodel file; new or empty, and no part of a run.
        quantization: of the weights; "onnx" and "web" have no bfloat16, "hf" no int8.
        texts: a file of texts to compare by, one a line; by default texts of random pieces of the vocabulary.
        languages: of "argos", the codes of source and target, as "en-de"; by default the model's name.
        runtime: of "web", the engine onnxruntime-web: the npm package, unpacked or as `npm pack` writes it;
            by default npm fetches it once into the user's cache.
        one_file: of "web", also write the page with all that it loads as one file, page.html.

    Raises:
        UserError: the engine lacks a setting of the model; the error names the nearest that it has.
        RunError: the engine's outputs differ; nothing is written.
        MissingExtra: the engine is not installed.
    """
    refuse_taken(Path(out))
    if to != "web" and (runtime is not None or one_file):
        name = "one_file" if runtime is None else "runtime"
        raise UserError(f"{name} is an option of to = 'web', not of to = {to!r}", "leave it out")
    if languages is not None and to != "argos":
        raise UserError(f"languages = {languages!r} is not possible with to = {to!r}", "leave it out")
    given = None if texts is None else lines_of(texts)
    page: dict[str, Any] = {"runtime": None if runtime is None else Path(runtime), "one_file": one_file}
    loaded = open_model(model, Runtime(device="cpu"))
    if to == "argos":
        certificate = export_to_argos(
            loaded, Path(out), languages=languages, quantization=quantization, texts=given
        )
    elif to == "hf":
        certificate = export_to_huggingface(loaded, Path(out), quantization=quantization, texts=given)
    elif to in ("onnx", "web") and isinstance(loaded.config, EncoderOnlyConfig):
        encoder = web_encoder(**page) if to == "web" else ONNX_ENCODER
        certificate = export_encoder(encoder, loaded, Path(out), quantization=quantization, texts=given)
    else:
        target = web_target(**page) if to == "web" else TARGETS[to]
        certificate = export_certified(target, loaded, Path(out), quantization=quantization, texts=given)
    return ExportReport(path=Path(out), target=to, certificate=certificate)


def _encoder_summary(certificate: dict[str, Any]) -> str:
    """The certificate of an encoder in a line."""
    labels = certificate["labels"]
    texts = f"certificate: {certificate['texts']['count']} texts"
    within = f"within {labels['largest_difference']:.1g} of regard's"
    if certificate["head"] == "regression":
        return f"{texts}; outputs {within}"
    tied = f" and {labels['tied']:.1%} tied" if labels["tied"] else ""
    return f"{texts}, labels {labels['equal']:.1%} equal{tied}; log-probabilities {within}"


def _argos_summary(comparison: dict[str, Any]) -> str:
    """The comparison by Argos Translate, `argos` in a certificate, in a line."""
    translations = comparison["translations"]["equal"]
    usual = comparison["translations"]["with_usual_weights"]
    outputs = comparison["outputs"]
    line = f"by {comparison['judged_by']}: pieces {comparison['pieces']['equal']:.1%} equal"
    line += f", outputs {outputs['equal'] + outputs['tied']:.1%}"
    if translations is None:
        return f"{line}; argostranslate is not installed here, so it was not asked"
    return f"{line}, translations {translations:.1%}; {usual:.1%} stay the same with weights as it loads them"
