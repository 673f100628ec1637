"""The averaged perceptron of NLTK (Collins 2002), trained on a file; runs in an environment of its own.

    python perceptron_tagger.py TRAIN.conllu TEST.conllu

prints the accuracy of UPOS per word of TEST. Its features are the word, its beginning and end, the words
around it and the two labels before it.
"""

import json
import random
import sys

from nltk.tag.perceptron import PerceptronTagger

ITERATIONS = 5  # the default of NLTK
Sentence = list[tuple[str, str]]


def read(path: str) -> list[Sentence]:
    """The words of each sentence with their UPOS."""
    sentences: list[Sentence] = [[]]
    with open(path, encoding="utf-8") as file:
        for line in file:
            cells = line.rstrip("\n").split("\t")
            if len(cells) == 10 and cells[0].isdecimal():
                sentences[-1].append((cells[1], cells[3]))
            elif not line.strip():
                sentences.append([])
    return [sentence for sentence in sentences if sentence]


def main() -> None:
    train, test = map(read, sys.argv[1:])
    random.seed(1)  # of the order of the sentences
    tagger = PerceptronTagger(load=False)
    tagger.train(train, nr_iter=ITERATIONS)
    right = words = 0
    for sentence in test:
        found = tagger.tag([word for word, _ in sentence])
        right += sum(label == true for (_, label), (_, true) in zip(found, sentence, strict=True))
        words += len(sentence)
    print(json.dumps({"score": 100 * right / words}))


if __name__ == "__main__":
    main()
