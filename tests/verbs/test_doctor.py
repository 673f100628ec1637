"""The doctor reports on everything, and nothing that is missing makes it fail."""

import errno
import os
import pathlib

import pytest
import torch

from regard.counted import counted
from regard.data.catalogue import data_sets
from regard.errors import UserError
from regard.fast.native import build, compiler, kernels
from regard.fast.native.compiler import find_compiler
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.verbs import doctor as doctor_module
from regard.verbs.doctor import doctor, forms, forms_on_a_gpu
from regard.verbs.shared.included_models import included_model


def test_the_doctor_reports_versions_processors_disk_data_and_the_included_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = {finding.topic: finding for finding in doctor()}
    assert f"torch {torch.__version__}" in found["packages"].found
    assert counted(torch.get_num_threads(), "thread") in found["CPU"].found
    assert "free" in found["disk, here"].found
    assert all(found[f"data {name}"].found == "not here" for name in data_sets())
    assert all(name in found[f"data {name}"].hint for name in data_sets())
    assert (
        found["data folders"].hint == f"REGARD_DATA: {tmp_path / 'none'} does not exist: correct or unset it"
    )
    assert str(included_model()) in found["included model"].found
    assert "--model en-de" in found["included model"].found
    assert " MB" in found["included model"].found


@pytest.fixture
def kernels_of(monkeypatch, tmp_path):
    """A function from an environment to what the doctor reports on kernels, before they are built."""
    source = tmp_path / "source.c"
    source.write_text("int has_int8(void) { return 0; }\n")
    monkeypatch.setattr(compiler, "SOURCES", [source])
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    caches = (build.library, build._found, kernels.constant, kernels.kernel)

    def forget():
        for cache in caches:
            cache.cache_clear()

    def report(**environment):
        for name, value in {"XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}.items():
            monkeypatch.setenv(name, value)
        forget()
        return next(finding for finding in doctor_module._processors() if finding.topic == "kernels")

    yield report
    forget()


@pytest.mark.skipif(find_compiler() is None or os.name != "posix", reason="no C compiler")
def test_the_doctor_names_the_reason_for_missing_kernels(kernels_of, tmp_path, monkeypatch, caplog):
    path = " ".join(find_compiler())
    assert "float32, compiled by" in kernels_of().found
    assert f"compiled by {path} -m64" in kernels_of(CC=f"{path} -m64").found
    found = [
        kernels_of(CC="/no/such/compiler -m64"),
        kernels_of(CC="/bin/false"),
        kernels_of(CC="", PATH=""),
        kernels_of(CC=path, XDG_CACHE_HOME=str(tmp_path / "source.c")),
    ]
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    found.append(kernels_of(CC=path, XDG_CACHE_HOME=str(tmp_path / "shared")))
    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "mkdir", unwritable)
        found.append(kernels_of(CC=path, XDG_CACHE_HOME=str(tmp_path / "unwritable")))
    if hasattr(os, "ST_NOEXEC"):
        noexec = type("NoExec", (), {"f_flag": os.ST_NOEXEC})
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", lambda path: noexec)
            found.append(kernels_of(CC=path, XDG_CACHE_HOME=str(tmp_path / "noexec")))
    reasons = (
        "no such compiler",
        "/bin/false cannot compile",
        "there is no C compiler",
        "Not a directory",
        "can be written to by every user",
        "unwritable: Permission denied",
        "mounted noexec",
    )
    for finding, reason in zip(found, reasons, strict=False):
        assert reason in finding.found
        assert finding.hint
    assert kernels_of(REGARD_NATIVE="0").found.endswith("REGARD_NATIVE is 0")
    assert caplog.records == []  # it is reported once


def unwritable(self, *_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))


def translator(**table):
    config = EncoderDecoderConfig(
        src_vocab_size=9, tgt_vocab_size=9, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1,
        num_decoder_layers=1, **table,
    )  # fmt: skip
    return build_model(config, seed=1).eval()


def forms_of(model):
    return {finding.topic: finding.found for finding in forms(model)}


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
def test_the_doctor_tells_which_forms_a_model_takes_and_why():
    model = translator()
    assert forms_of(model) == {
        "decoding on a CPU": "fast: each step is one plan of kernels",
        "training on a CPU": "fused: 10 of 10 sub-layers",
    }
    model.decoder.blocks[0].feed_forward.register_forward_hook(lambda *given: None)
    assert forms_of(model)["decoding on a CPU"] == "plain: decoder.blocks.0.feed_forward: it has a hook"
    found = forms_of(translator(activation="gelu", norm="rms", positions="alibi"))
    assert found["decoding on a CPU"] == "plain: encoder: positions are a bias of scores"
    assert found["training on a CPU"].startswith("fused: 5 of 10 sub-layers; plain: encoder.blocks.0.")
    config = EncoderOnlyConfig(
        vocab_size=9, d_model=8, num_heads=2, d_ff=8, num_layers=1, head="masked_language_model"
    )
    assert list(forms_of(build_model(config, seed=1))) == ["training on a CPU"]


def test_the_doctor_tells_that_there_are_no_kernels(monkeypatch):
    monkeypatch.setattr(doctor_module, "why_none", lambda: UserError("none"))
    monkeypatch.setattr(kernels, "available", lambda: False)
    assert set(forms_of(translator()).values()) == {"plain: this machine has no kernels in C"}


@pytest.mark.parametrize("has_triton", [True, False])
def test_the_doctor_tells_what_a_gpu_does(monkeypatch, has_triton):
    """With a model that is on a CPU all the same: what it says of the parts is tested on GPUs."""
    monkeypatch.setattr(doctor_module, "has_triton", lambda: has_triton)
    monkeypatch.setattr(doctor_module, "why_plain", lambda model: None if has_triton else "a hook")
    found = {each.topic: each.found for each in forms_on_a_gpu(translator())}
    assert found == {
        "decoding on a GPU": "fast: each step is a CUDA graph" if has_triton else "plain: a hook",
        "training on a GPU": "fused where its parts have kernels" if has_triton else "plain",
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_the_doctor_finds_a_gpu():
    found = {each.topic: each.found for each in doctor(included_model())}
    assert found["kernels on a GPU"] == "compiled by Triton"
    assert found["decoding on a GPU"] == "fast: each step is a CUDA graph"


def test_the_doctor_reads_a_model_folder():
    assert "decoding on a CPU" in {finding.topic for finding in doctor(included_model())}
