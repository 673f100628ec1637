"""Each mutant has one change and is a program; messages and type annotations are not mutated."""

from tests.long import mutants as check
from tests.long.mutants import PACKAGES, ROOT, Case, cases, counted
from tests.long.mutation import mutants

DRAWN = [("decoding", "a.py"), ("decoding", "b.py"), ("decoding", "c.py"), ("training", "d.py")]
PROGRAM = """
from typing import Literal

Kind = Literal["a", "b"]
LIMIT = 3
LEAST, MOST = 1, 9


class Counter:
    def __init__(self, start: int = 1) -> None:
        self.value = start

    def __repr__(self) -> str:
        return f"{1 + 2}"

    def add(self, other: int) -> int:
        if other < LIMIT and not other:
            raise ValueError("too small", 5)
        self.log()
        return self.value + other
"""


def test_every_mutant_is_one_change_of_the_program():
    found = list(mutants(PROGRAM))
    changes = {mutant.change for mutant in found}
    assert changes == {
        "Counter.__init__: 1 -> 2",
        "Counter.__init__: self.value = start -> pass",
        "Counter.add: other < LIMIT and (not other) -> other < LIMIT or not other",
        "Counter.add: other < LIMIT -> other <= LIMIT",
        "Counter.add: not other -> other",
        "Counter.add: raise ValueError('too small', 5) -> pass",
        "Counter.add: self.log() -> pass",
        "Counter.add: self.value + other -> self.value - other",
    }
    for mutant in found:
        compile(mutant.text, "mutant", "exec")
        lines = zip(PROGRAM.splitlines(), mutant.text.splitlines(), strict=True)
        assert sum(one != other for one, other in lines) == 1, mutant.change


def test_all_else_stays_in_its_line():
    text = """
def f(x):
    é = "ä" if x else g(
        x + 1,  # a comment
        -x,
    ) + h
    if g(
        x
    ):
        é.append(
            "é"
        ); x += 1
    return é
"""
    for mutant in mutants(text):
        lines = [*zip(text.splitlines(), mutant.text.splitlines(), strict=True)]
        changed = [number for number, (one, other) in enumerate(lines, 1) if one != other]
        assert changed, mutant.change
        assert mutant.line <= changed[0] <= changed[-1] <= mutant.line + 4, mutant.change


def test_defaults_are_set_on_import_and_what_a_function_does_is_not():
    text = (
        PROGRAM + "    share: float = 0.5\n\n    def less(self, by=(lambda: 7)) -> int:\n        return 8\n"
    )
    on_import = {mutant.change for mutant in mutants(text) if mutant.on_import}
    assert on_import == {"Counter.__init__: 1 -> 2", "Counter: 0.5 -> 1.0", "Counter.less: 7 -> 8"}


def test_the_same_change_in_one_function_has_a_number():
    assert [each.change for each in mutants("x = [0, 0]")] == ["module: 0 -> 1", "module: 0 -> 1 (2)"]


def test_names_of_mutants_are_theirs_alone():
    names = [case.name for case in cases("serving", None)]
    assert len(names) == len(set(names)) > 50
    assert all((ROOT / "src/regard" / package).is_dir() for package in PACKAGES)


def test_what_was_drawn_and_what_survived_is_counted_by_package(monkeypatch, tmp_path):
    explained = tmp_path / "mutants.toml"
    mutant = next(iter(mutants(PROGRAM)))
    drawn = [Case(package=package, file=file, mutant=mutant) for package, file in DRAWN]
    explained.write_text(f'"{drawn[1].name}" = "the same"\n')
    monkeypatch.setattr(check, "EXPLAINED", explained)
    found = counted("decoding", drawn, [drawn[0], drawn[1], drawn[3]])
    names = [drawn[0].name, drawn[1].name]
    assert found == {"sample": 3, "killed": 1, "survived": 2, "with_reason": 1, "survivors": names}
