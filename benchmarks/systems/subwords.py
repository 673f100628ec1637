"""Runs in a peer's environment: a SentencePiece model of both sides of a corpus.

    python subwords.py PREFIX SIZE TYPE SPECIAL FILE...

SPECIAL is `joeynmt` or `eole`: the order of the special tokens, and the form of the list of pieces, that
these expect. Writes PREFIX.model, PREFIX.vocab and PREFIX.pieces.
"""

import math
import sys

import sentencepiece

SPECIAL = {
    "joeynmt": {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3},
    "eole": {},  # its recipes keep SentencePiece's own
}


def main() -> None:
    prefix, size, kind, special, *files = sys.argv[1:]
    sentencepiece.SentencePieceTrainer.train(
        input=files,
        model_prefix=prefix,
        model_type=kind,
        vocab_size=int(size),
        character_coverage=1.0,
        num_threads=1,
        **SPECIAL[special],
    )
    with (
        open(f"{prefix}.vocab", encoding="utf-8", newline="\n") as vocabulary,
        open(f"{prefix}.pieces", "w", encoding="utf-8", newline="\n") as pieces,
    ):
        for line in vocabulary:
            piece, _, score = line.rstrip("\n").rpartition("\t")
            if piece in ("<unk>", "<s>", "</s>", "<pad>"):
                continue
            count = "" if special == "joeynmt" else f"\t{int(math.exp(float(score)) * 1e6) + 1}"
            pieces.write(f"{piece}{count}\n")


if __name__ == "__main__":
    main()
