"""A dictionary aligned out of sentence pairs: words that translate each other in both directions.

IBM model 1 (Brown et al. 1993) by expectation-maximisation, once from English to German and once back; a
pair of words stays where the product of the two probabilities is high.
"""

import re
from collections import Counter

import numpy as np

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
ROUNDS = 8
LEAST_COUNT = 3  # occurrences of either word
LEAST = 0.12  # product of the two probabilities


def aligned_dictionary(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """English words in lower case, each with its German word as it is written within a sentence."""
    english = [[word.lower() for word in WORD.findall(source)] for source, _ in pairs]
    written = _within_sentences(pairs)
    german = [[written.get(word.lower()) or word for word in WORD.findall(target)] for _, target in pairs]
    forward = _translations(english, german)
    backward = _translations(german, english)
    counts = Counter(word for words in english for word in words)
    counts_de = Counter(word for words in german for word in words)
    best: dict[str, tuple[float, str]] = {}
    for (source, target), share in forward.items():
        product = share * backward.get((target, source), 0.0)
        common = min(counts[source], counts_de[target]) >= LEAST_COUNT
        if product >= LEAST and common and product > best.get(source, (0.0, ""))[0]:
            best[source] = product, target
    return [(source, target) for source, (_, target) in sorted(best.items())]


def _within_sentences(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """The usual capitals of each German word where it does not begin a sentence."""
    forms: dict[str, Counter[str]] = {}
    for _, target in pairs:
        for at in WORD.finditer(target):
            begins = at.start() == 0 or target[: at.start()].rstrip()[-1:] in tuple(".!?:„\"“”'")
            forms.setdefault(at[0].lower(), Counter())[at[0]] += 1 if begins else 1000
    return {word: found.most_common(1)[0][0] for word, found in forms.items()}


def _translations(sources: list[list[str]], targets: list[list[str]]) -> dict[tuple[str, str], float]:
    """The probability of each target word for a source word that stands in a pair with it."""
    source_ids, source_words = _numbered(sources)
    target_ids, target_words = _numbered(targets)
    links, slots, slot = [], [], 0
    nothing = len(source_words)  # a source word that stands in every sentence
    for one, other in zip(source_ids, target_ids, strict=True):
        ids = np.array([*one, nothing])
        links.append((ids[None, :] * len(target_words) + np.array(other, np.int64)[:, None]).ravel())
        slots.append(np.repeat(np.arange(slot, slot + len(other)), len(ids)))
        slot += len(other)
    kinds, kind = np.unique(np.concatenate(links), return_inverse=True)
    place = np.concatenate(slots)
    owner = kinds // len(target_words)
    probability = np.ones(len(kinds))
    for _ in range(ROUNDS):
        shares = probability[kind]
        shares /= np.bincount(place, shares, slot)[place]
        counts = np.bincount(kind, shares, len(kinds))
        probability = counts / np.bincount(owner, counts, nothing + 1)[owner]
    kept = np.flatnonzero((probability > 0.05) & (owner < nothing))
    return {
        (source_words[owner[at]], target_words[kinds[at] % len(target_words)]): float(probability[at])
        for at in kept
    }


def _numbered(texts: list[list[str]]) -> tuple[list[list[int]], list[str]]:
    numbers: dict[str, int] = {}
    ids = [[numbers.setdefault(word, len(numbers)) for word in text] for text in texts]
    return ids, list(numbers)
