"""The structures that Python hands to the kernels are those of the C files, field by field.

A wrong field would not fail: kernels would read and write the wrong memory.
"""

import ctypes
import subprocess

import pytest

from regard.fast.native import attention, attention_training, linear, plan, sampling, search
from regard.fast.native.compiler import SOURCES, find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
FOLDER = SOURCES[0].parent
STRUCTURES = {
    attention.Heads: "kernels.h",
    attention_training._View: "attention_training.c",
    attention_training._Attention: "attention_training.c",
    sampling.Filters: "kernels.h",
    linear.Weights: "product.h",
    plan.Operand: "plan.h",
    plan.Call: "plan.h",
    plan.Run: "plan.h",
    search.Search: "search.c",
}


def declared(name):
    """Fields of the C structure as the compiler would have to find them, as assertions."""
    structure = {kind.__name__.lstrip("_"): kind for kind in STRUCTURES}[name]
    yield f'_Static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, "size of {name}");'
    for field, *_ in structure._fields_:
        place = getattr(structure, field)
        own = f"(({name} *)0)->{field}"
        yield f'_Static_assert(offsetof({name}, {field}) == {place.offset}, "place of {name}.{field}");'
        yield f'_Static_assert(sizeof({own}) == {place.size}, "size of {name}.{field}");'


def compiled(file, assertions, folder):
    source = folder / "assertions.c"
    source.write_text("\n".join(["#include <stddef.h>", f'#include "{FOLDER / file}"', *assertions]))
    command = [*find_compiler(), "-march=native", "-std=gnu11", "-fsyntax-only", str(source)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("structure", "file"), STRUCTURES.items(), ids=[kind.__name__.lstrip("_") for kind in STRUCTURES]
)
def test_each_field_lies_where_c_has_it(structure, file, tmp_path):
    done = compiled(file, declared(structure.__name__.lstrip("_")), tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_field_elsewhere_would_be_found(tmp_path):
    done = compiled("plan.c", ['_Static_assert(offsetof(Operand, width) == 0, "elsewhere");'], tmp_path)
    assert "elsewhere" in done.stderr


def test_no_structure_is_left_out():
    modules = (attention, attention_training, linear, plan, sampling, search)
    found = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, ctypes.Structure)
    }
    users = {file.stem for file in FOLDER.glob("*.py") if "ctypes.Structure" in file.read_text("utf-8")}
    assert found == set(STRUCTURES)
    assert users == {module.__name__.rpartition(".")[2] for module in modules}
