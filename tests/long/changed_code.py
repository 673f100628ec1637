"""Another body for a function of a program that is loaded: quicker than to import the program again."""

import gc
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType


@dataclass(frozen=True, kw_only=True)
class ChangedFunction:
    """A function or method of a file, one that is in no other function, and the whole file with its change.

    `number` distinguishes functions of the same name, such as a property and its setter.
    """

    file: str
    name: str  # as Sampler.draw
    number: int
    text: str

    def exchange(self) -> bool:
        """Give the function its changed code, wherever it is referred to; False where it was not found.

        True also where the file is not loaded: it will be with the change.
        """
        gc.unfreeze()  # tests freeze what collecting leaves, and frozen objects are not listed
        loaded = [each for each in gc.get_objects() if self._is_loaded(each)]
        if not loaded:
            return not any(getattr(each, "__file__", None) == self.file for each in [*sys.modules.values()])
        codes = [*functions_of(compile(self.text, self.file, "exec"))]
        codes = [code for code in codes if code.co_qualname == self.name]
        lines = sorted({each.__code__.co_firstlineno for each in loaded})
        if len(lines) != len(codes):
            return False
        code = codes[self.number]
        changed = [each for each in loaded if each.__code__.co_firstlineno == lines[self.number]]
        if any(each.__code__.co_freevars != code.co_freevars for each in changed):
            return False
        for each in changed:
            each.__code__ = code
        return True

    def _is_loaded(self, value: object) -> bool:
        if type(value) is not FunctionType:  # `isinstance` asks some objects, which warn
            return False
        code = value.__code__
        return code.co_qualname == self.name and code.co_filename == self.file


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module, and those of its classes, in the order of the file; none within another."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & inspect.CO_NEWLOCALS:
                yield each
            else:
                yield from functions_of(each)
