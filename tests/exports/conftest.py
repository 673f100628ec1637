"""What the tests of exports share."""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import tempfile
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo

import regard
from tests.exports.traced_once import operators_read_once, traced_once
from tests.warm_process import start_python


@pytest.fixture(autouse=True, scope="package")
def exporter_without_checks(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "traces"  # of all workers
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        operators_read_once(patch)
        # with sizes that are symbols, to find what is stored takes longer than to compute it again
        patch.setattr(torch._dynamo.config, "fake_tensor_cache_enabled", False)
        patch.setattr(torch.onnx, "export", traced_once(torch.onnx.export, folder))
        yield


def in_a_fork(command, *, input, timeout, **_):
    """The process of an engine as a fork of one that has PyTorch, which some engines import for seconds."""
    process = start_python(command[1:])
    output, errors = process.communicate(input.encode(), timeout)
    return subprocess.CompletedProcess(command, process.returncode, output.decode(), errors.decode())


@pytest.fixture(autouse=True, scope="package")
def engines_in_forks():
    """Where no test uses `new_process`."""
    from regard.exports import certified_export

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certified_export, "subprocess", SimpleNamespace(run=in_a_fork))
        yield


@pytest.fixture
def new_process(monkeypatch):
    """Python is started for the engine, as it is for users."""
    from regard.exports import certified_export

    monkeypatch.setattr(certified_export, "subprocess", subprocess)


@pytest.fixture(autouse=True, scope="package")
def node_that_compiles_once(tmp_path_factory):
    """Node spends five of six seconds on the optimised code of an engine that computes for a moment."""
    from regard.errors import UserError
    from regard.exports.web_node import node

    with pytest.MonkeyPatch.context() as patch:
        with contextlib.suppress(UserError):  # there is none
            program, folder = node(), tmp_path_factory.mktemp("node")
            if os.name == "posix":
                (folder / "node").write_text(f'#!/bin/sh\nexec "{program}" --liftoff-only "$@"\n', "utf-8")
                (folder / "node").chmod(0o755)
                patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
        yield


@pytest.fixture(scope="package")
def box_in_onnx(tmp_path_factory, exporter_without_checks):
    """The included model in ONNX, with int8 weights; two sentences are compared."""
    folder = tmp_path_factory.mktemp("box")
    (folder / "texts").write_text("A man is sleeping.\nTwo dogs run across the field.\n", "utf-8")
    return regard.export("en-de", to="onnx", out=folder / "out", quantization="int8", texts=folder / "texts")


@pytest.fixture(scope="session")
def engine():
    """The files of onnxruntime-web: of the user's cache, or from npm. Without them tests are skipped."""
    from regard.errors import UserError
    from regard.exports.web_runtime import runtime_files

    try:
        runtime_files()
    except UserError as error:
        pytest.skip(f"{error.message}; {error.hint}")


@pytest.fixture(scope="package")
def page_folder(tmp_path_factory, exporter_without_checks):
    """Small models by kind, and their pages, with the loop in Python beside them."""
    from regard.exports import onnx_folder, web_folder
    from tests.exports.engine_models import shared_model

    @functools.cache
    def written(kind):
        loaded, folder = shared_model(kind), tmp_path_factory.mktemp(kind)
        web_folder.save(loaded, folder, one_file=True)
        for name in onnx_folder.LOOPS:
            shutil.copy(onnx_folder.FILES / name, folder)
        return loaded, folder

    return written


@pytest.fixture(scope="session")
def run_node():
    """Runs an ES module that imports from a folder by "./NAME"; `given` is its standard input as JSON."""
    from regard.errors import UserError
    from regard.exports.web_folder import FILES
    from regard.exports.web_node import node

    try:
        program = node()
    except UserError as error:
        pytest.skip(f"{error.message}; {error.hint}")

    def run(module, given=None, folder=FILES):
        module = 'import { readFileSync } from "node:fs";\n' + module.replace(
            'from "./', f'from "{folder.as_uri()}/'
        )
        module = module.replace("GIVEN", 'JSON.parse(readFileSync(process.argv[2], "utf-8"))')
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump(given, file)
            file.flush()
            command = [program, "--input-type=module", "-", file.name]
            done = subprocess.run(
                command, input=module, capture_output=True, text=True, encoding="utf-8", check=False
            )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
