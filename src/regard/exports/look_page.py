"""A page of one look that holds its model: the model's files, and the script that runs it.

The JavaScript of `look_files` computes looks from the graphs of `look_graphs.py`, with the tokenisers and
tensors of `web_files`.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import RunError
from regard.exports.look_graphs import refuse_own_kernels, save_look_graphs
from regard.exports.onnx_folder import loop_config
from regard.exports.onnx_package import require_onnx
from regard.exports.onnx_settings import known
from regard.exports.refusal import NotExpressible
from regard.exports.web_folder import own_files, page_config
from regard.exports.web_node import node
from regard.exports.web_one_file import WORKER, held_files, worker_script
from regard.exports.web_runtime import SCRIPT, runtime_files
from regard.exports.web_tokenizers import contents_of, refuse_unread
from regard.models.build import count_parameters
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.page.assets import HeldModel, modules
from regard.page.bundle import bundle
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes

ENGINE = "a page with its model"
FILES = Path(__file__).parent / "look_files"
CHECK = "answer.js"  # runs in node, for a check
ENTRY = "live.js"  # of the page; the other files are the worker's
READ_NPY = "npy.js"  # of the page, which the worker uses too
MOST_PARAMETERS = 100_000_000  # with float32 weights the file has four bytes for each, and a third more


def save_look_folder(
    loaded: LoadedModel,
    folder: Path,
    table: Mapping[str, Any],
    files: Mapping[str, bytes],
    runtime: Path | None,
) -> None:
    """Write what a page needs to look at texts with a model into a folder.

    `table` is what the JavaScript reads besides the config of an export; `files` are others that it reads.

    Raises:
        NotExpressible: a page cannot have the model's weights, or read its tokenisers.
        UserError: models of this kind cannot be exported, an attention has a kernel that is none of
            regard's, or Node.js or the engine are not here.
        RunError: torch cannot export the model.
    """
    config = known(loaded.config)
    refuse_unread(contents_of(loaded.tokenizers))
    if (count := count_parameters(loaded.model)) > MOST_PARAMETERS:
        raise NotExpressible(ENGINE, "parameters", count, f"a file holds at most {MOST_PARAMETERS:,}")
    refuse_own_kernels(loaded.model)
    require_onnx("this page")
    node()
    engine = runtime_files(runtime)
    assert isinstance(loaded.model, EncoderDecoder | DecoderOnly)  # `known` refuses others
    save_look_graphs(loaded.model, folder)
    names = _javascript().items()
    for name, content in {**dict(names), **engine, **loaded.tokenizers.files(), **files}.items():
        (folder / name).write_bytes(content)
    config = page_config(loaded, folder, loop_config(loaded, config))
    sizes = {**config["files"], **{name: len(content) for name, content in files.items()}}
    (folder / "config.json").write_bytes(json_bytes({**config, "files": sizes, "look": dict(table)}))


def _javascript() -> dict[str, bytes]:
    """The modules of the worker by name."""
    own = {path.name: path.read_bytes() for path in sorted(FILES.glob("*.js")) if path.name != CHECK}
    return {**own_files(), **own, READ_NPY: modules()[READ_NPY].encode()}


def held_model(folder: Path) -> HeldModel:
    """The model of such a folder, for a page to hold."""
    own = {name: content.decode() for name, content in _javascript().items() if name.endswith(".js")}
    below = {f"live/{name}": content for name, content in own.items()}
    names = json.loads((folder / "config.json").read_text("utf-8"))["files"]
    files = {name: (folder / name).read_bytes() for name in ("config.json", SCRIPT, *names)}
    files[WORKER] = worker_script(own, "look_engine.js").encode()
    return HeldModel(
        script=bundle({**modules(), **below}, f"live/{ENTRY}"), elements=held_files(files) + "\n"
    )


def looks_in_node(folder: Path, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the JavaScript of such a folder answers: {summary, json, arrays} or {error} for each request.

    Raises:
        RunError: it ended with an error.
    """
    done = subprocess.run(  # noqa: S603 (node, with a script of regard)
        [node(), str(FILES / CHECK)],
        input=json.dumps({"folder": str(folder), "requests": [dict(each) for each in requests]}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "Error" in line] or ["node ended"]
        raise RunError(
            f"the page's model does not run: {lines[0][:300]}", "nothing was written; please report this"
        )
    return json.loads(done.stdout)
