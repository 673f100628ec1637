"""Each kernel compiles for GPUs that are not here; an interpreter takes programs that a compiler refuses."""

import os

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing"),
]

HALF, SINGLE, LABELS, BYTES = "*bf16", "*fp32", "*i64", "*u8"
NUMBERS = {"p": "fp32", "eps": "fp32", "scale": "fp32", "smoothing": "fp32"}
SHARED = {80: 163, 90: 227}  # kilobytes of shared memory of a program, by the generation of the card


def norms():
    for bias, adds in ((True, True), (False, False)):
        constants = {"DROPS": 1, "CENTERS": bias, "HAS_BIAS": bias, "BLOCK": 512}
        types = dict.fromkeys(("residual", "gain", "bias", "added", "out", "moments"), SINGLE)
        halves = {"x": HALF, "half": HALF}
        yield "norm", "_normed", {**types, **halves}, {**constants, "ADDS": adds, "HALVES": adds}
        names = ("gradient", "passing", "added", "moments", "gain", "of_sum", "of_gain", "of_bias")
        halves = {"of_x": HALF, "of_half": HALF}
        outputs = {"HAS_OUT": True, "HAS_HALF": adds, "PASSES": adds}
        yield "norm", "_normed_backward", {**dict.fromkeys(names, SINGLE), **halves}, {**constants, **outputs}


def elementwise():
    for kind in range(3):
        constants = {"KIND": kind, "DROPS": 1}
        types = {"gradient": HALF, "x": HALF, "out": HALF, "of_x": HALF, "bias": SINGLE, "of_bias": SINGLE}
        yield "elementwise", "_activated", types, {**constants, "BLOCK": 1024}
        yield "elementwise", "_activated_backward", types, {**constants, "ROWS": 64, "COLUMNS": 64}
    for residual in (True, False):
        types = {"residual": SINGLE, "x": HALF, "out": SINGLE, "seed": LABELS}
        yield "elementwise", "_added", types, {"ADDS": residual, "DROPS": 2, "BLOCK": 1024}


def sums():
    yield "biased_product", "_summed", {"x": HALF, "out": SINGLE}, {"ROWS": 32, "COLUMNS": 64}


def rotations():
    types = {**dict.fromkeys(("x", "out"), HALF), **dict.fromkeys(("sine", "cosine"), SINGLE)}
    types |= {"positions": LABELS, "sign": "fp32"}
    for has_positions in (True, False):
        yield "rotation", "_turned", types, {"HAS_POSITIONS": has_positions, "HALF": 32, "BLOCK": 64}


def losses():
    types = {"logits": HALF, "labels": LABELS, "losses": SINGLE}
    yield "cross_entropy", "_cross_entropy", types, {"BLOCK": 4096}


def attentions():
    names = ("query", "key", "value", "out", "gradient", "of_query", "of_key", "of_value")
    bounds = dict.fromkeys(("target_bounds", "source_bounds"), LABELS)
    types = {**dict.fromkeys(names, HALF), **bounds, "mask": BYTES, "seed": LABELS}
    for length, packed in ((16, True), (64, False), (128, True)):
        constants = {"MASKED": not packed, "CAUSAL": packed, "PACKED": packed, "DROPS": 2, "WIDTH": 64}
        constants |= {"TARGETS": length, "SOURCES": length}
        yield "attention", "_attend", types, constants
        yield "attention", "_attend_backward", types, constants


def queries():
    for kind, size in ((HALF, 2), (SINGLE, 4), ("*fp16", 2)):
        types = {**dict.fromkeys(("query", "key", "value", "keys", "values", "out"), kind), "lengths": LABELS}
        for is_new in (True, False):
            for width in (16, 64, 256):
                positions = min(64, max(16, 8192 // (width * size)))
                constants = {"GROUP": 4, "QUERIES": 16, "WIDTH": width, "POSITIONS": positions}
                yield "one_query", "_attend", types, {**constants, "HAS_NEW": is_new}


@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("kernels", [norms, elementwise, sums, rotations, losses, attentions, queries])
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_a_kernel_compiles(kernels, capability):
    triton = pytest.importorskip("triton")
    import importlib

    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for module, name, types, constants in kernels():
        kernel = getattr(importlib.import_module(f"regard.fast.triton.{module}"), name)
        signature = {
            each: "constexpr" if each in constants else {**NUMBERS, **types}.get(each, "i32")
            for each in kernel.arg_names
        }
        places = {(kernel.arg_names.index(each),): value for each, value in constants.items()}
        source = ASTSource(fn=kernel, signature=signature, constexprs=places)
        options = {"num_stages": 2} if module == "one_query" else {}
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        assert compiled.metadata.shared <= SHARED[capability] * 1024
