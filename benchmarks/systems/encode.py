"""Runs in a peer's environment: the pieces of each line of a file, with spaces between them.

python encode.py MODEL INPUT OUTPUT
"""

import sys

import sentencepiece


def main() -> None:
    model, source, output = sys.argv[1:]
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    with open(source, encoding="utf-8", newline="\n") as lines, open(output, "w", encoding="utf-8") as out:
        for line in lines:
            out.write(" ".join(processor.encode(line.rstrip("\n"), out_type=str)) + "\n")


if __name__ == "__main__":
    main()
