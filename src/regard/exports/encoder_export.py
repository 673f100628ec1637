"""An encoder with a head as a folder that another engine reads, if its certificate passes."""

import base64
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.masked_text import split_at_masks
from regard.decoding.batches import deterministic, padded
from regard.exports.certificate import Quantization
from regard.exports.certified_export import EncoderTarget, facts_of, in_own_process, write_if_certified
from regard.exports.certified_sequences import CertifiedSequences, chunks, made_texts, shuffled
from regard.exports.encoder_certificate import EncoderComparison, Rows, compare_encoders
from regard.exports.encoder_texts import (
    OF_CLASSES,
    ReadText,
    read_text,
    refuse_no_texts,
    refuse_other_heads,
    with_masks,
)
from regard.exports.odd_texts import ODD_TEXTS
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.model_folder import LoadedModel

ROWS = 32  # texts of a batch
LENGTH = 32  # ids of a sequence that covers a part of the vocabulary


def export_encoder(
    target: EncoderTarget,
    loaded: LoadedModel,
    out: Path,
    *,
    quantization: Quantization = "float32",
    texts: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write the folder `out`; returns its certificate.

    Raises:
        NotExpressible: the model has another head, or the engine does not have its weights or tokeniser.
        RunError: its outputs are further from regard's than the certificate allows; nothing is written.
        MissingExtra: the engine is not installed.
    """
    config = refuse_other_heads(target.name, loaded.config)
    return write_if_certified(
        target,
        loaded,
        out,
        lambda folder: compared(target, loaded, folder, texts, quantization),
        quantization=quantization,
        most_positions=config.position_limit,
    )


def compared(
    target: EncoderTarget,
    loaded: LoadedModel,
    folder: Path,
    texts: Sequence[str] | None,
    quantization: Quantization = "float32",
    *,
    compute: Callable[[Any], dict[str, Any]] | None = None,
) -> tuple[EncoderComparison, dict[str, Any]]:
    """Compare the outputs of a saved folder with the model's; and the facts of its certificate."""
    config = refuse_other_heads(target.name, loaded.config)
    tokenizer = loaded.tokenizers.source
    chosen = made_texts(tokenizer) if texts is None else [text for text in texts if text.strip()]
    if config.head == "masked_language_model":
        plain = [len(split_at_masks(tokenizer, text)) == 1 for text in chosen]
        masked = with_masks(chosen)
        chosen = [
            new if is_plain else text for text, new, is_plain in zip(chosen, masked, plain, strict=True)
        ]
    read = _fitting(config, [(text, read_text(config.head, tokenizer, text)) for text in chosen])
    refuse_no_texts([each for _, each in read])
    odd = [(text, read_text(config.head, tokenizer, text)) for text in ODD_TEXTS]  # they are only read
    odd = [(text, each) for text, each in _fitting(config, odd) if config.head == "tokens" or text.strip()]
    rows = [each for _, each in read] + _covering(config, loaded)
    job = {
        "folder": str(folder),
        "threads": torch.get_num_threads(),
        "texts": [text for text, _ in [*read, *odd]],
        "rows": [each.ids for each in rows],
        "places": [each.places for each in rows],
    }
    answer = in_own_process(target.process, target.name, job) if compute is None else compute(job)
    ours = _outputs(loaded, rows)
    theirs = [_rows(each, own.shape) for each, own in zip(answer["outputs"], ours, strict=True)]
    pairs = zip([*read, *odd], answer["read"], strict=True)
    same = [[each.ids, each.places] == found for (_, each), found in pairs]
    comparison = compare_encoders(
        ours, theirs, classes=config.head in OF_CLASSES, scale=config.label_std, read=sum(same) / len(same),
        quantization=quantization,
    )  # fmt: skip
    sequences = CertifiedSequences(
        texts=tuple(text for text, _ in read), sources=(), covering=(), covered=1.0
    )
    facts = facts_of(sequences, answer["versions"], made=texts is None)
    if "tokenizers" in answer:  # the engine has a tokeniser of its own, which is equal
        facts["tokenizers"] = answer["tokenizers"]
    return comparison, {"target": target.key, "quantization": quantization, "head": config.head, **facts}


def _fitting(config: EncoderOnlyConfig, read: Sequence[tuple[str, ReadText]]) -> list[tuple[str, ReadText]]:
    """The texts for which the model has positions; of whole texts the beginning, with the end."""
    most = config.position_limit
    if most is None:
        return list(read)
    if config.head in ("classification", "regression"):
        cut = [(text, [*each.ids[: min(len(each.ids), most) - 1], each.ids[-1]]) for text, each in read]
        return [(text, ReadText(ids=ids, places=None)) for text, ids in cut]
    return [(text, each) for text, each in read if len(each.ids) <= most]


def _covering(config: EncoderOnlyConfig, loaded: LoadedModel) -> list[ReadText]:
    """Sequences in which the model reads all of its vocabulary."""
    tokenizer = loaded.tokenizers.source
    length = min(LENGTH, (config.position_limit or LENGTH + 2) - 2)
    found = []
    for ids in chunks(shuffled(tokenizer), length):
        inner = range(1, 1 + len(ids))
        places = {"tokens": list(inner), "masked_language_model": [1]}.get(config.head)
        found.append(ReadText(ids=[tokenizer.bos_id, *ids, tokenizer.eos_id], places=places))
    return found


def _outputs(loaded: LoadedModel, texts: Sequence[ReadText]) -> list[Rows]:
    """regard's own outputs: of each text a row, or one for each of its places."""
    model: Any = loaded.model
    order = sorted(range(len(texts)), key=lambda number: len(texts[number].ids))
    found: dict[int, Rows] = {}
    with torch.no_grad(), deterministic([model]):
        for first in range(0, len(order), ROWS):
            numbers = order[first : first + ROWS]
            ids, lengths = padded(
                [texts[each].ids for each in numbers],
                model.config.pad_id,
                most=model.config.position_limit or sys.maxsize,
            )
            values = model(ids, lengths).numpy()
            values = values[:, None] if values.ndim == 1 else values
            for number, row in zip(numbers, values, strict=True):
                places = texts[number].places
                found[number] = row[None].copy() if places is None else row[places]
    return [found[number] for number in range(len(texts))]


def _rows(encoded: str, shape: tuple[int, ...]) -> Rows:
    """Numbers of float32 in base64, as rows."""
    return np.frombuffer(base64.b64decode(encoded), np.float32).reshape(shape)
