"""A model as a folder that any server of files can serve: a page in which the model runs."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard.exports.certificate import Quantization
from regard.exports.certified_export import Target, export_certified, origin
from regard.exports.onnx_folder import APPLIED, loop_config, save_without_loop
from regard.exports.onnx_graphs import DECODER, ENCODER
from regard.exports.onnx_settings import known, most_positions
from regard.exports.refusal import NotExpressible
from regard.exports.unapplied_defaults import unapplied_line
from regard.exports.web_node import node
from regard.exports.web_one_file import PAGE, one_file_page
from regard.exports.web_runtime import WASM, runtime_files
from regard.exports.web_tokenizers import classes_needed, contents_of, refuse_unread
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name
from regard.weights.strict_json import json_bytes

ENGINE = "a web page"
FILES = Path(__file__).parent / "web_files"
NOT_COPIED = {"certify.js", "certify_encoder.js"}  # for the certificate alone


def save(
    loaded: LoadedModel,
    folder: Path,
    quantization: Quantization = "float32",
    *,
    runtime: Path | None = None,
    one_file: bool = False,
) -> None:
    """Write a page with the graphs of a model, its loop and its engine into a folder.

    `runtime` has the engine's files (`web_runtime.py`); `one_file`: `page.html` too (`web_one_file.py`).

    Raises:
        NotExpressible: a page cannot have the model's weights, or read its tokenisers.
        UserError: Node.js or the engine are not here.
        RunError: torch cannot export the model.
    """
    refuse_unread(contents_of(loaded.tokenizers))
    node()
    engine = runtime_files(runtime)
    save_without_loop(loaded, folder, quantization)
    write_page(loaded, folder, loop_config(loaded, known(loaded.config)), engine, one_file=one_file)


def write_page(
    loaded: LoadedModel,
    folder: Path,
    table: Mapping[str, Any],
    engine: Mapping[str, bytes],
    *,
    one_file: bool,
) -> None:
    """Write the page, its modules and its engine beside the graphs in a folder; `table` is what a loop reads.

    Raises:
        NotExpressible: the weights are too large for a page.
    """
    _refuse_large(folder)
    for name, content in {**own_files(), **engine}.items():
        (folder / name).write_bytes(content)
    (folder / "config.json").write_bytes(json_bytes(page_config(loaded, folder, table)))
    if one_file:
        (folder / PAGE).write_text(one_file_page(folder), "utf-8")


def own_files() -> dict[str, bytes]:
    """The page and its modules, by name."""
    return {
        path.name: path.read_bytes()
        for path in sorted(FILES.iterdir())
        if path.is_file() and path.name not in NOT_COPIED
    }


def page_config(loaded: LoadedModel, folder: Path, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the page reads: the content of config.json; `files` are those that it loads, and their bytes."""
    names = [name for name in (ENCODER, DECODER) if (folder / name).exists()]
    names += dict.fromkeys(table[side]["tokenizer"] for side in ("source", "target") if side in table)
    names.append(WASM)
    return {
        **table,
        "name": model_name(loaded),
        "files": {name: (folder / name).stat().st_size for name in names},
        "characters": classes_needed(contents_of(loaded.tokenizers)),
    }


def _refuse_large(folder: Path) -> None:
    if beside := [path.name for path in folder.glob("*.onnx.data")]:
        raise NotExpressible(
            ENGINE, "weights", f"more than 1.5 GB ({beside[0]})", "a page has little memory; take --to onnx"
        )


def _card(loaded: LoadedModel, quantization: Quantization) -> str:
    """How to use the folder, as Markdown."""
    does = "translates" if isinstance(loaded.config, EncoderDecoderConfig) else "continues"
    return f"""# {model_name(loaded)} in a page

{origin(quantization)}.

```
python -m http.server
```

serves this folder at http://localhost:8000, as any other server of files does. The page {does} texts in the
browser, by WebAssembly in one thread; it loads the files of this folder and nothing else, and sends nothing.
In Node.js: `node run.js "a text"`. `generate.js` has the loop: greedily, or by a beam whose scores are mean
log-probabilities, the end included, and which stops when as many hypotheses as its size have ended.

`onnxruntime-web.js` and `.wasm` are those of ONNX Runtime Web (MIT, `onnxruntime-web.LICENSE.txt`).
{unapplied_line(loaded, APPLIED, "The page does")}"""


WEB = Target(
    name=ENGINE,
    key="web",
    process="regard.exports.web_process",
    known=known,
    most_positions=most_positions,
    save=save,
    card=_card,
    applied=lambda loaded: APPLIED,
)


def web_target(*, runtime: Path | None = None, one_file: bool = False) -> Target:
    """The target with its options."""
    return replace(WEB, save=partial(save, runtime=runtime, one_file=one_file))


export_to_web = partial(export_certified, WEB)
