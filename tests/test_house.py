"""The architecture: imports run in one direction, without cycles; each file says what it is for."""

import ast
import graphlib
import re
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "regard"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): file
    for file in FILES
}
MAY_USE = {
    "peer_names": "",
    "errors": "peer_names",
    "registry": "errors",
    "counted": "",
    "lazy_names": "",
    "user_cache": "",
    "stop_signals": "",
    "parent_process": "",
    "layers": "lazy_names",
    "documents": "",
    "recipe": "errors",
    "console": "errors",
    "evaluation": "data errors",
    "data": "recipe user_cache registry counted lazy_names errors",
    "models": "layers recipe registry lazy_names errors",
    "fast": "models layers user_cache errors",
    "decoding": "fast models layers recipe parent_process stop_signals registry lazy_names errors",
    "distributed": "models layers recipe parent_process stop_signals errors",
    "inspection": "models layers decoding lazy_names errors",
    "weights": "models layers data console registry counted lazy_names errors",
    "training": "fast models layers data weights distributed console recipe registry counted lazy_names "
    "errors",
    "jobs": "data errors",
    "exports": "fast models layers data weights decoding page user_cache errors",
    "verbs": "jobs training exports inspection evaluation weights decoding distributed fast models layers "
    "documents data page recipe peer_names console stop_signals registry counted lazy_names errors",
    "page": "",
    "serving": "verbs documents inspection decoding weights page console parent_process errors",
    "cli": "serving verbs recipe peer_names console stop_signals registry counted errors",
    "__init__": "verbs errors",
    "__main__": "cli",
}
ONLY_IN = {  # third-party package -> where it may be imported; torch, numpy and jaxtyping: anywhere
    "tokenizers": (
        "data/tokenizer.py",
        "data/tokenizer_training.py",
        "data/cached_words.py",
        "exports/onnx_files/",  # a loop that is copied into exports
        "exports/web_characters.py",
    ),
    "sentencepiece": ("data/tokenizer_sentencepiece.py", "exports/sentencepiece_package.py"),
    "argostranslate": "exports/argos_process.py",
    "sacrebleu": "evaluation/",
    "safetensors": ("weights/", "data/corpus_part.py"),
    "rich": "console/",
    "markdown_it": "documents/markdown.py",
    "click": "cli/",
    "babel": "data/synthetic.py",
    "jinja2": "data/template_process.py",
    "jupytext": "verbs/learn.py",
    "matplotlib": "inspection/",
    "msgspec": "serving/",
    "prometheus_client": "serving/",
    "yaml": "weights/toolkits/yaml_file.py",
    "py3langid": "serving/",
    "fsspec": "jobs/storage.py",
    "zstandard": "jobs/members.py",
    "pyarrow": "jobs/parquet.py",
    "ray": "jobs/ray_engine.py",
    "soundfile": "data/compressed_sound.py",
    "h11": "serving/",
    "starlette": "serving/",
    "uvicorn": "serving/",
    "ctranslate2": "exports/ctranslate2_",
    "gguf": "exports/gguf_package.py",
    "llama_cpp": "exports/gguf_package.py",
    "transformers": ("exports/huggingface_process.py", "exports/huggingface_files/"),
    "PIL": "data/image_files.py",
    "onnx": "exports/onnx_package.py",
    "triton": "fast/triton/",
    "onnxruntime": ("exports/onnx_package.py", "exports/onnx_files/"),
    "onnxscript": "exports/onnx_package.py",
    "anywidget": "verbs/views/widget.py",
    "traitlets": "verbs/views/widget.py",
}


def imported(file: Path) -> set[str]:
    """Dotted names that `file` imports, wherever the import is, relative ones resolved."""
    here = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).split(".")
    names = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = (
                [*here[: len(here) - node.level], *([node.module] if node.module else [])]
                if node.level
                else [node.module]
            )
            package = ".".join(base)
            names |= {
                f"{package}.{alias.name}" if f"{package}.{alias.name}" in MODULES else package
                for alias in node.names
            }
    return names


def uses(file: Path) -> set[Path]:
    """The files of regard that `file` imports."""
    return {MODULES[name] for name in imported(file) if name in MODULES} - {file}


def package_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_run_down(file):
    assert package_of(file) in MAY_USE, f"{package_of(file)} is not in the table MAY_USE"
    upward = {package_of(used) for used in uses(file)} - {
        package_of(file),
        *MAY_USE[package_of(file)].split(),
    }
    assert not upward, f"{package_of(file)} may not use {', '.join(sorted(upward))}"


LAYERS = sorted(set((PACKAGE / "layers").glob("*.py")) - {PACKAGE / "layers" / "__init__.py"})


@pytest.mark.parametrize("file", LAYERS, ids=lambda file: file.name)
def test_layers_import_torch_and_jaxtyping_alone(file):
    """So that a file of them can be copied into a notebook and runs."""
    outside = {name.split(".")[0] for name in imported(file)} - set(sys.stdlib_module_names)
    assert outside <= {"torch", "jaxtyping", "regard"}
    assert {package_of(used) for used in uses(file)} <= {"layers"}


def test_kernels_know_no_models():
    for file in sorted((PACKAGE / "fast" / "native").glob("*.py")):
        others = {used for used in uses(file) if "native" not in used.parts}
        assert {package_of(used) for used in others} - {"fast"} <= {"errors", "user_cache"}, file.name
        assert not [used for used in others if package_of(used) == "fast" and used.name != "__init__.py"], (
            file.name
        )


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_third_party_packages_stay_in_their_files(file):
    outside = (
        {name.split(".")[0] for name in imported(file)}
        - {"regard", "torch", "numpy", "jaxtyping"}
        - set(sys.stdlib_module_names)
    )
    for package in outside:
        place = ONLY_IN.get(package)
        assert place, f"{package} has no place in the table"
        assert str(file.relative_to(PACKAGE).as_posix()).startswith(place), f"{package} belongs in {place}"


def test_imports_have_no_cycles():
    graphlib.TopologicalSorter(
        {file: {used for used in uses(file) if used.name != "__init__.py"} for file in FILES}
    ).prepare()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_file_says_what_it_is_for(file):
    first = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()[:1]
    assert first, "no first line"
    assert len(first[0]) <= 100


def test_the_beam_size_is_named_in_few_files():
    """A setting is written where it is defined and used; between the two, a settings object carries it."""
    naming = [
        str(file.relative_to(PACKAGE))
        for file in FILES
        if re.search(r"\bbeam_size\b", file.read_text("utf-8"))
        and file.parent.name != "toolkits"
        and file.name != "peer_names.py"  # other tools have it, too
    ]
    # one declares it, one checks it with others; one is a keyword of CTranslate2, one writes what an export's
    # loop reads
    assert len(naming) <= 11, naming
