"""Minimum Bayes risk: the sample that is most like all, by its definition."""

from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.risk import expected_utilities, minimum_risk


def overlap(text: str, other: str) -> float:
    return len({*text} & {*other}) / max(len({*text} | {*other}), 1)


@given(st.lists(st.text("abcd", max_size=4), min_size=1, max_size=12), st.integers(1, 5))
def test_the_chosen_have_the_greatest_mean_utility_over_all_samples(texts, count):
    means = [sum(overlap(text, other) for other in texts) / len(texts) for text in texts]
    found = expected_utilities(texts, overlap)
    assert all(abs(ours - theirs) < 1e-12 for ours, theirs in zip(found, means, strict=True))
    best = minimum_risk(texts, overlap, count)
    assert len(best) == min(count, len({*texts}))
    assert len({texts[place] for place, _ in best}) == len(best), "no text twice"
    scores = [score for _, score in best]
    assert scores == sorted(scores, reverse=True)
    assert max(means) - scores[0] < 1e-12
    left = [mean for text, mean in zip(texts, means, strict=True) if text not in {texts[p] for p, _ in best}]
    assert not left or max(left) - scores[-1] < 1e-12


def test_what_most_samples_say_wins_over_what_one_says():
    places = minimum_risk(["a b", "x y", "a b", "a c"], overlap, 1)
    assert places[0][0] == 0
