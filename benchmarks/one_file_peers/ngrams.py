"""A character n-gram model, interpolated by the method of Witten and Bell (1991).

    python -m benchmarks.one_file_peers.ngrams TRAIN TEST

prints the bits per character of TEST, of a model of the first nine tenths of TRAIN, which chose its order on
the last, and of one of all of TRAIN. In a context with `n` characters, `t` of them different, the share
t / (n + t) of the probability goes to the next lower order; the lowest is uniform over the characters of
TRAIN and one more for all others.
"""

import json
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path

ORDERS = range(4, 8)  # the best for the last tenth of TRAIN is used
TRAINED_SHARE = 0.9  # of TRAIN; regard holds out as much


class CharacterNgrams:
    """Counts of characters after each context of up to `order - 1` characters."""

    def __init__(self, text: str, order: int) -> None:
        self.order, self.alphabet = order, len(set(text)) + 1
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for place, character in enumerate(text):
            for length in range(min(order, place + 1)):
                self.counts[text[place - length : place]][character] += 1
        self.totals = {context: counts.total() for context, counts in self.counts.items()}

    def probability(self, character: str, history: str) -> float:
        """Of the character after the history, of which the last `order - 1` characters count."""
        found = 1 / self.alphabet
        for length in range(min(self.order, len(history) + 1)):
            context = history[len(history) - length :]
            if (counts := self.counts.get(context)) is None:
                break
            total, different = self.totals[context], len(counts)
            found = (counts[character] + different * found) / (total + different)
        return found

    def bits(self, text: str) -> float:
        """Bits per character of a text."""
        width = self.order - 1
        found = (
            self.probability(character, text[max(0, place - width) : place])
            for place, character in enumerate(text)
        )
        return -sum(map(math.log2, found)) / len(text)


def best_order(text: str) -> tuple[int, CharacterNgrams]:
    """The order with which the last tenth of a text is predicted best from what is before it; that model."""
    end = int(TRAINED_SHARE * len(text))
    order = min(ORDERS, key=lambda order: CharacterNgrams(text[:end], order).bits(text[end:]))
    return order, CharacterNgrams(text[:end], order)


def main() -> None:
    train, test = (Path(name).read_text("utf-8") for name in sys.argv[1:])
    order, model = best_order(train)
    figures = {"score": model.bits(test), "whole": CharacterNgrams(train, order).bits(test), "order": order}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
