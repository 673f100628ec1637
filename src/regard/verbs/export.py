"""Export: a model as a folder of another engine, with a certificate of what that engine computes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.errors import UserError
from regard.exports.certified_export import export_certified
from regard.exports.ctranslate2_folder import CTRANSLATE2
from regard.exports.onnx_folder import ONNX
from regard.exports.web_folder import WEB, web_target
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.lines import lines_of
from regard.verbs.shared.runtime import Runtime
from regard.weights.huggingface_files import refuse_taken

TARGETS = {target.key: target for target in (CTRANSLATE2, ONNX, WEB)}


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """The folder that was written, the engine that reads it, and the content of its CERTIFICATE.json."""

    path: Path
    target: str
    certificate: dict[str, Any]

    def summary(self) -> str:
        """The certificate in a line."""
        greedy, beam = self.certificate["greedy"], self.certificate["beam"]
        shares = ", ".join(
            f"{name} {each['equal']:.1%} equal" + (f" and {each['tied']:.1%} tied" if each["tied"] else "")
            for name, each in (("greedy", greedy), (f"beam {beam['size']}", beam))
        )
        largest = self.certificate["log_probs"]["largest_difference"]
        return (
            f"certificate: {self.certificate['texts']['count']} texts, {shares};"
            f" log-probabilities within {largest:.1g} of regard's"
        )


@checked
def export(
    model: AnyModel,
    *,
    to: Literal["ctranslate2", "onnx", "web"],
    out: str | Path,
    quantization: Literal["float32", "float16", "bfloat16", "int8"] = "float32",
    texts: str | Path | None = None,
    runtime: str | Path | None = None,
    one_file: bool = False,
) -> ExportReport:
    """Write a model as a folder of another engine, with a certificate: what that engine computes.

    The engine reads the folder in a process of its own, and its greedy outputs, its beams and its
    log-probabilities are compared with those of regard's plain model. The folder appears only if they are
    within the bounds that its CERTIFICATE.json has.

    Args:
        model: a model or run folder, en-de, or what `regard.load` returns.
        to: "ctranslate2", "onnx" with a loop in Python, or "web", a page in which the model runs; for
            encoder-decoders and decoder-only models.
        out: the folder to write.
        quantization: of the weights: "float32", "float16", "int8", or "bfloat16" for CTranslate2.
        texts: a file of texts to compare by, one a line; by default texts of random pieces of the vocabulary.
        runtime: of "web", the engine onnxruntime-web: the npm package, unpacked or as `npm pack` writes it;
            by default npm fetches it once into the user's cache.
        one_file: of "web", also write the page with all that it loads as one file, page.html.

    Raises:
        UserError: the engine does not have a setting of the model, which is named with the nearest it has.
        RunError: the engine computes something else; nothing is written.
        MissingExtra: the engine is not installed.
    """
    refuse_taken(Path(out))
    target = TARGETS[to]
    if to == "web":
        target = web_target(runtime=None if runtime is None else Path(runtime), one_file=one_file)
    elif runtime is not None or one_file:
        name = "one_file" if runtime is None else "runtime"
        raise UserError(f"{name} is an option of to = 'web', not of to = {to!r}", "leave it out")
    given = None if texts is None else lines_of(texts)
    loaded = open_model(model, Runtime(device="cpu"))
    certificate = export_certified(target, loaded, Path(out), quantization=quantization, texts=given)
    return ExportReport(path=Path(out), target=to, certificate=certificate)
