"""Work of other sizes than the test set: files of lines, and sentences of a model with many words."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.unfit import Unfit
from benchmarks.convert.to_ctranslate2 import write_model
from benchmarks.decoding.regard_decoder import NO_LIMIT
from benchmarks.decoding.sentences import Decoder, Ids, Sentences
from regard.decoding.batches import decode_all
from regard.decoding.settings import GenerationSettings
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.verbs.shared.precision import Precision, compute_in

PAD, UNK, BOS, EOS = range(4)
WORDS = 128_000
WIDE = EncoderDecoderConfig(
    src_vocab_size=WORDS, tgt_vocab_size=WORDS, d_model=256, num_heads=4, d_ff=1024, num_encoder_layers=3,
    num_decoder_layers=3, tied="all",
)  # fmt: skip


class ManyWords(Decoder):
    """regard with random weights and WORDS words."""

    def __init__(self, *, sentences: str, precision: Precision) -> None:
        super().__init__(sentences=sentences)
        self._model = build_model(WIDE, seed=0).eval()
        compute_in(precision, self._model, self._model.device)

    def decode(self, batch: Sequence[int], beam: int, length: int | None) -> list[Ids]:
        if length is None:
            raise Unfit("a model with random weights does not end a sentence")
        settings = GenerationSettings(
            beam_size=beam, alpha=1.0, max_length_ratio=0.0, max_length_offset=length, max_length=length,
            min_length=length, early_stopping=beam > 1,
        )  # fmt: skip
        found = decode_all(
            settings.strategy(pad_id=PAD, bos_id=BOS, eos_id=EOS),
            self._model,
            [self.sentences.ids[place] for place in batch],
            batch_tokens=NO_LIMIT,
            pad_id=PAD,
            eos_id=EOS,
        )
        return [hypotheses[0].ids for hypotheses in found]


def write_many_words(folder: Path) -> Path:
    """The file of 32 sentences of 20 words for a model with random weights and WORDS words."""
    words = [f"word{number}" for number in range(WORDS)]
    words[UNK], words[BOS], words[EOS] = "<unk>", "<s>", "</s>"
    try:
        weights = build_model(WIDE, seed=0).state_dict()
        converted = str(write_model(WIDE, weights, words, folder / "ctranslate2-many-words"))
    except Unfit as unfit:
        converted = f"!{unfit}"
    ids = [[4 + (7919 * (31 * row + place)) % (WORDS - 4) for place in range(20)] for row in range(32)]
    path = folder / "many-words.json"
    Sentences(
        model="", converted=converted, texts=[""] * 32, ids=ids, vocabulary=words, lengths=[20] * 32,
        limits=[20] * 32, alpha=1.0,
    ).write(path)  # fmt: skip
    return path


def write_variant(sentences: Path, path: Path, **changes: Any) -> Path:
    """The file `sentences` with other values, such as other texts, as `path`."""
    path.write_text(json.dumps(json.loads(sentences.read_text("utf-8")) | changes), "utf-8")
    return path
