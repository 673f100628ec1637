"""The library for matrix products is as accurate as float32 and chosen once per run."""

import json
import os

import pytest
import torch

from regard.errors import RecipeError
from regard.fast.bfloat16_products import linear_layers_are_replaced
from regard.training import products
from regard.training.products import choose_precision, is_exact, matmul_precision, speed_up
from tests.warm_process import run_python

CPU = torch.device("cpu")


def test_float32_by_name_is_pytorchs_default():
    assert choose_precision("float32", 256, CPU) == "highest"


def test_a_small_model_and_a_gpu_keep_pytorchs_default():
    assert choose_precision("auto", 32, CPU) == "highest"
    assert choose_precision("auto", 256, torch.device("meta")) == "highest"


@pytest.mark.parametrize(
    ("exact", "gain", "chosen"),
    [(True, 2.0, "medium"), (True, 1.1, "highest"), (False, 9.0, "highest")],
)
def test_auto_takes_what_is_as_exact_and_clearly_faster(monkeypatch, exact, gain, chosen):
    monkeypatch.setattr(products, "is_exact", lambda *_: exact)
    monkeypatch.setattr(products, "speed_up", lambda *_: gain)
    assert choose_precision("auto", 256, CPU) == chosen


def test_the_limits_of_width_and_of_speed_up_are_enough(monkeypatch):
    monkeypatch.setattr(products, "is_exact", lambda *_: True)
    monkeypatch.setattr(products, "speed_up", lambda *_: products.MIN_SPEED_UP)
    assert choose_precision("auto", products.MIN_D_MODEL, CPU) == "medium"
    assert choose_precision("auto", products.MIN_D_MODEL - 1, CPU) == "highest"


def test_the_speed_up_is_the_ratio_of_the_usual_times(monkeypatch):
    """For the first product of each setting the library prepares itself, and one may be interrupted."""
    clock, seconds = [0.0], {"highest": [50.0, 1, 1, 1, 5, 90, 5], "medium": [70.0, 1, 1, 1, 3, 3, 3]}
    seconds = {name: iter(each) for name, each in seconds.items()}

    def multiply(x, weight):
        assert x.shape[1] == weight.shape[0] == 64
        assert weight.shape[1] == 4 * 64, "as the feed-forward layer"
        clock[0] += next(seconds[torch.get_float32_matmul_precision()])

    monkeypatch.setattr(products.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(products.torch, "mm", multiply)
    assert speed_up("medium", 64) == 1.5


def test_what_auto_chooses_here_has_the_error_of_float32():
    assert is_exact(choose_precision("auto", 128, CPU), 128)


def test_products_in_bfloat16_are_not_exact(monkeypatch):
    monkeypatch.setattr(
        products, "_factors", lambda _: (torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16())
    )
    assert not is_exact("highest", 64)


@pytest.mark.parametrize(("before", "setting"), [("highest", "medium"), ("medium", "highest")])
def test_the_setting_of_before_comes_back_even_after_an_error(before, setting):
    def fail() -> None:
        with matmul_precision(setting):
            assert torch.get_float32_matmul_precision() == setting
            raise ZeroDivisionError

    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(before)
    try:
        with pytest.raises(ZeroDivisionError):
            fail()
        assert torch.get_float32_matmul_precision() == before
    finally:
        torch.set_float32_matmul_precision(usual)


def test_a_run_keeps_its_choice(tmp_path):
    from regard.verbs.train import train
    from regard.verbs.training_run.product_choice import PRODUCTS

    run = tmp_path / "run"
    sets = [
        "data.train.size=200",
        "data.test.size=20",
        "data.valid.size=20",
        "training.max_steps=2",
        "training.validate_every=2",
        "training.save_every=1",
    ]
    train("reverse", out=run, overrides=sets, threads=1)
    assert json.loads((run / PRODUCTS).read_text()) == {"float32_matmul_precision": "highest"}


def test_memory_stays_flat_over_products_of_many_shapes():
    script = """
import ctypes, resource, sys, torch
from regard.training.products import matmul_precision
if hasattr(ctypes.CDLL(None), "mallopt"):  # glibc: what it keeps of freed blocks is not the kernels'
    ctypes.CDLL(None).mallopt(-3, 1 << 18)  # M_MMAP_THRESHOLD, which grows otherwise
weight = torch.randn(192, 864)
with matmul_precision("medium"):
    for rows in range(400, 420):
        torch.randn(rows, 192) @ weight
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for rows in range(420, 600):
        torch.randn(rows, 192) @ weight
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = run_python(["-c", script])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 40 * 1024  # KiB; with a thousand kernels kept it is 140 MiB


@pytest.mark.parametrize("amx", [True, False])
@pytest.mark.parametrize("setting", ["highest", "medium", "bfloat16"])
def test_linear_layers_are_replaced_for_bfloat16_where_the_library_has_none(monkeypatch, setting, amx):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    with matmul_precision(setting):
        assert linear_layers_are_replaced() is (setting == "bfloat16" and not amx)
        assert torch.get_float32_matmul_precision() == ("highest" if setting == "highest" else "medium")
    assert not linear_layers_are_replaced()


@pytest.mark.parametrize(
    ("library", "avx512", "amx", "machine", "has"),
    [
        (True, False, False, "x86_64", False),
        (True, True, False, "x86_64", True),
        (True, False, True, "x86_64", True),
        (True, False, False, "aarch64", True),
        (True, False, False, "arm64", True),
        (False, True, True, "arm64", False),
    ],
)
def test_bfloat16_needs_the_library_and_a_processor_with_its_instructions(
    monkeypatch, library, avx512, amx, machine, has
):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: library)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(products.platform, "machine", lambda: machine)
    assert products.has_bfloat16() is has
    if has:
        assert choose_precision("bfloat16", 8, CPU) == "bfloat16"
    else:
        with pytest.raises(RecipeError, match="no instructions for bfloat16"):
            choose_precision("bfloat16", 8, CPU)
    with pytest.raises(RecipeError, match="is for a CPU, not for cuda") as refused:
        choose_precision("bfloat16", 8, torch.device("cuda"))
    assert refused.value.hint


@pytest.mark.parametrize("name", ["ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"])
def test_caches_of_kernels_are_small_unless_the_environment_says_otherwise(monkeypatch, name):
    monkeypatch.setenv(name, "7")
    with matmul_precision("highest"):
        assert os.environ[name] == "7"
    monkeypatch.delenv(name)
    with matmul_precision("highest"):
        assert os.environ[name] == products.KERNEL_CACHE_SIZE
