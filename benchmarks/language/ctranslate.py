"""CTranslate2's generator on a converted model: float32 or int8."""

from typing import Any

import ctranslate2

from benchmarks.common.unfit import Unfit
from benchmarks.language.writer import Writer


class Generator(Writer):
    """CTranslate2's generation, with its cache and a prefilled prompt."""

    def __init__(self, *, kind: str, threads: int, **settings: Any) -> None:
        super().__init__(threads=threads, **settings)
        if self.work["converted"].startswith("!"):
            raise Unfit(self.work["converted"][1:])
        self._generator = ctranslate2.Generator(
            self.work["converted"], device="cpu", compute_type=kind, inter_threads=1, intra_threads=threads
        )
        self._vocabulary: list[str] = self.work["vocabulary"]
        self._ids = {piece: number for number, piece in enumerate(self._vocabulary)}

    def write(self, length: int) -> list[int]:
        return self.write_all([self.prompt], length)[0]

    def write_all(self, prompts: list[list[int]], length: int) -> list[list[int]]:
        all_found = self._generator.generate_batch(
            [[self._vocabulary[number] for number in prompt] for prompt in prompts],
            max_length=length,
            min_length=length,
            include_prompt_in_result=False,
            suppress_sequences=[[self._vocabulary[number]] for number in self.banned],
        )
        return [[self._ids[piece] for piece in found.sequences[0]] for found in all_found]
