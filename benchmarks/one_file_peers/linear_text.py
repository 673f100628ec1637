"""TF-IDF of n-grams and a logistic regression, as scikit-learn has them; runs in an environment of its own.

    python linear_text.py TRAIN.csv TEST.csv words|characters|majority

prints the accuracy on TEST. `words`: words and pairs of words. `characters`: 2 to 5 characters.
"""

import csv
import json
import sys
from collections import Counter

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

FEATURES = {
    "words": {"ngram_range": (1, 2)},
    "characters": {"analyzer": "char", "ngram_range": (2, 5)},
}
STRENGTH = 10.0  # of the fit (C); scikit-learn's default, 1, is worse on most of the corpora


def read(path: str) -> tuple[list[str], list[str]]:
    """Texts and labels of a CSV file with a header."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [row[0] for row in rows], [row[1] for row in rows]


def main() -> None:
    train, test, kind = sys.argv[1:]
    (texts, labels), (test_texts, test_labels) = read(train), read(test)
    if kind == "majority":
        [(most, _)] = Counter(labels).most_common(1)
        accuracy = sum(label == most for label in test_labels) / len(test_labels)
    else:
        features = TfidfVectorizer(sublinear_tf=True, **FEATURES[kind])
        model = make_pipeline(features, LogisticRegression(C=STRENGTH, max_iter=1000))
        accuracy = model.fit(texts, labels).score(test_texts, test_labels)
    print(json.dumps({"score": 100 * accuracy}))


if __name__ == "__main__":
    main()
