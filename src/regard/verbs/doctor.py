"""Doctor: a report on versions, processors, memory, disk, data sets and the included model."""

import os
import platform
import shutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

import torch

from regard.counted import counted
from regard.data.catalogue import cache_folder, check, data_folders, data_sets, how_to_get, wrong_data_folder
from regard.data.memory import total_memory
from regard.errors import FolderError
from regard.fast.decoding_step import why_plain
from regard.fast.fusible import has_triton
from regard.fast.native import kernels
from regard.fast.native.build import library_origin, try_again, why_none
from regard.fast.training import fusible_parts
from regard.models.model import Model
from regard.verbs.shared.included_models import included_model
from regard.verbs.shared.limits import cores
from regard.verbs.shared.model_loading import load_named_model
from regard.weights.folder import verify_folder

CORE = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "jaxtyping", "click", "rich")
EXTRAS = {"Babel": "demo", "matplotlib": "plot"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report; `hint` tells how to fix a problem, and is empty if there is none."""

    topic: str
    found: str
    hint: str = ""


def doctor(model: str | Path | None = None) -> list[Finding]:
    """Report what regard finds on this machine, and which forms a `model` takes on its CPU and GPU.

    Changes nothing; missing things are not errors.

    Args:
        model: a model or run folder, or the name of an included model; None: the machine alone.

    Raises:
        FolderError: `model` is not a model folder.
    """
    found = [*_versions(), *_processors(), *_disk(), *_data(), _box()]
    if model is None:
        return found
    loaded = load_named_model(model, torch.device("cpu")).model
    found += forms(loaded)
    if torch.cuda.is_available():
        found += forms_on_a_gpu(loaded.to("cuda"))
    return found


def forms_on_a_gpu(model: Model) -> Iterator[Finding]:
    """As `forms`, of a model on a GPU."""
    if model.config.generates:
        reason = why_plain(model)
        found = "fast: each step is a CUDA graph" if reason is None else f"plain: {reason}"
        yield Finding(topic="decoding on a GPU", found=found)
    yield Finding(
        topic="training on a GPU", found="fused where its parts have kernels" if _triton() else "plain"
    )


def forms(model: Model) -> Iterator[Finding]:
    """Whether a model on a CPU decodes (if it writes text) and is trained in its fast form, or why not."""
    if model.config.generates:
        reason = why_plain(model)
        found = "fast: each step is one plan of kernels" if reason is None else f"plain: {reason}"
        yield Finding(topic="decoding on a CPU", found=found)
    parts = fusible_parts(model)
    plain = {name: reason for name, reason in parts.items() if reason is not None}
    if why_none() is not None:
        yield Finding(topic="training on a CPU", found="plain: this machine has no kernels in C")
    elif parts:
        first = next((f"; plain: {name}, {reason}" for name, reason in plain.items()), "")
        more = f", and {len(plain) - 1} more" if len(plain) > 1 else ""
        count = len(parts) - len(plain)
        yield Finding(
            topic="training on a CPU", found=f"fused: {count} of {len(parts)} sub-layers{first}{more}"
        )


def _versions() -> Iterator[Finding]:
    yield Finding(topic="regard", found=f"{_version('regard')} in {resources.files('regard')}")
    yield Finding(
        topic="Python",
        found=f"{platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}",
    )
    yield Finding(topic="packages", found=", ".join(f"{name} {_version(name)}" for name in CORE))
    for name, extra in EXTRAS.items():
        version = _version(name)
        hint = "" if version else f"pip install 'regard[{extra}]'"
        yield Finding(topic=f"extra {extra}", found=f"{name} {version or 'is not installed'}", hint=hint)


def _version(package: str) -> str:
    if package == "torch":
        return torch.__version__  # with its build, +cpu or +cu130, which its metadata may lack
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _processors() -> Iterator[Finding]:
    memory = f", {_gigabytes(total_memory())} of memory" if total_memory() else ""
    yield Finding(
        topic="CPU",
        found=f"{counted(cores(), 'core')}, {torch.backends.cpu.get_cpu_capability()},"
        f" {counted(torch.get_num_threads(), 'thread')}{memory}",
    )
    yield _kernels()
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        yield Finding(topic=f"cuda:{number}", found=f"{facts.name}, {_gigabytes(facts.total_memory)}")
    if torch.cuda.is_available():
        yield Finding(
            topic="kernels on a GPU",
            found="compiled by Triton" if _triton() else "none; PyTorch's are used",
            hint="" if _triton() else "Triton comes with PyTorch for CUDA, and needs a C compiler",
        )
    if torch.backends.mps.is_available():
        yield Finding(topic="mps", found="Apple GPU")
    elif not torch.cuda.is_available():
        yield Finding(topic="GPU", found="none that this build of PyTorch can use")


def _triton() -> bool:
    """True if Triton compiles here; the report says so without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return has_triton()


def _kernels() -> Finding:
    """The compiled kernels for decoding and training on a CPU."""
    try_again()
    if error := why_none():
        return Finding(topic="kernels", found=f"none; PyTorch's are used: {error.message}", hint=error.hint)
    products = "float32 and int8" if kernels.has_int8() else "float32"
    return Finding(topic="kernels", found=f"{products}, {library_origin()}")


def _disk() -> Iterator[Finding]:
    for name, folder, hint in (
        ("here", Path.cwd(), "change to a folder of your own"),
        ("cache", cache_folder(), "set XDG_CACHE_HOME"),
    ):
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        writable = os.access(existing, os.W_OK)
        yield Finding(
            topic=f"disk, {name}",
            found=f"{_gigabytes(free)} free for {folder}{'' if writable else ', which is not writable'}",
            hint="" if writable else hint,
        )


def _data() -> Iterator[Finding]:
    folders = ", ".join(str(folder) for folder in data_folders())
    wrong = wrong_data_folder()
    yield Finding(topic="data folders", found=folders, hint=wrong and f"{wrong}: correct or unset it")
    for name in data_sets():
        files = check(name)
        here = sum(status.state == "ok" for status in files)
        damaged = [status.file.name for status in files if status.state == "damaged"]
        state = "complete" if here == len(files) else f"{here} of {len(files)} files" if here else "not here"
        damage = f", damaged: {', '.join(damaged)}" if damaged else ""
        hint = how_to_get(name) if here < len(files) else ""
        yield Finding(topic=f"data {name}", found=state + damage, hint=hint)


def _box() -> Finding:
    try:
        path = included_model()
        verify_folder(path)
    except FolderError as error:
        return Finding(topic="included model", found=error.message, hint=error.hint)
    size = sum(file.stat().st_size for file in path.iterdir())
    return Finding(
        topic="included model",
        found=f"{path.name} (--model {path.name}) in {path}, complete, {size / 1e6:.1f} MB",
    )


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
