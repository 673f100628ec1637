"""An encoder with a head as a page in which it classifies texts, labels words or fills in masks."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from regard.exports.certificate import Quantization
from regard.exports.certified_export import EncoderTarget, origin
from regard.exports.encoder_texts import refuse_other_heads
from regard.exports.onnx_encoder import DOES, save_without_script, script_config
from regard.exports.web_folder import ENGINE, write_page
from regard.exports.web_node import node
from regard.exports.web_runtime import runtime_files
from regard.exports.web_tokenizers import contents_of, refuse_unread
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name


def save(
    loaded: LoadedModel,
    folder: Path,
    quantization: Quantization = "float32",
    *,
    runtime: Path | None = None,
    one_file: bool = False,
) -> None:
    """Write a page with the graph of an encoder and its engine into a folder; see `web_folder.save`."""
    config = refuse_other_heads(ENGINE, loaded.config)
    refuse_unread(contents_of(loaded.tokenizers))
    node()
    engine = runtime_files(runtime)
    save_without_script(loaded, folder, quantization)
    write_page(loaded, folder, script_config(loaded, config), engine, one_file=one_file)


def _card(loaded: LoadedModel, quantization: Quantization) -> str:
    """How to use the folder, as Markdown."""
    config = refuse_other_heads(ENGINE, loaded.config)
    return f"""# {model_name(loaded)} in a page

{origin(quantization)}.

```
python -m http.server
```

serves this folder at http://localhost:8000, as any other server of files does. The model
{DOES[config.head]}. It runs in the browser, by WebAssembly in one thread; the page loads the files of this
folder and nothing else, and sends nothing. In Node.js: `node run.js "a text"`.

`onnxruntime-web.js` and `.wasm` are those of ONNX Runtime Web (MIT, `onnxruntime-web.LICENSE.txt`).
"""


WEB_ENCODER = EncoderTarget(
    name=ENGINE,
    key="web",
    process="regard.exports.web_encoder_process",
    save=save,
    card=_card,
)


def web_encoder(*, runtime: Path | None = None, one_file: bool = False) -> EncoderTarget:
    """The target with its options."""
    return replace(WEB_ENCODER, save=partial(save, runtime=runtime, one_file=one_file))
