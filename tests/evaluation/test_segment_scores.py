"""Means of segments' scores, with the intervals and the significance of sacreBLEU's resampling."""

import numpy as np
import pytest

from regard.evaluation.segment_scores import compare_segments, mean_score


def scores(count: int, seed: int = 0) -> list[float]:
    return (0.8 + 0.1 * np.random.default_rng(seed).standard_normal(count)).tolist()


def test_the_score_is_the_mean_and_its_interval_that_of_means_of_resamples():
    found = scores(400)
    score = mean_score("metric", found, "reads:source")
    assert score.value == pytest.approx(np.mean(found), abs=1e-12)
    assert score.segments == tuple(found)
    drawn = np.random.default_rng(12345).choice(400, size=(1000, 400))  # sacreBLEU's resamples
    means = np.sort(np.array(found)[drawn].mean(axis=1))
    half = (means[974] - means[25]) / 2
    assert (score.low, score.high) == pytest.approx((means.mean() - half, means.mean() + half), abs=1e-6)
    assert score.signature.startswith("reads:source|bs:1000|seed:12345|version:regard ")


def test_negative_means_have_intervals_too():
    score = mean_score("metric", [-each for each in scores(60)], "reads:source")
    assert score.low is not None
    assert score.low < score.value < score.high < 0


def test_few_segments_have_no_interval_and_no_resampling_in_the_signature():
    score = mean_score("metric", scores(29), "reads:source")
    assert (score.low, score.high) == (None, None)
    assert score.signature.startswith("reads:source|version:regard ")


def test_a_system_that_is_better_everywhere_is_so_significantly_and_one_like_the_baseline_is_not():
    baseline = scores(100)
    noise = [each - np.mean(scores(100, 1)) for each in scores(100, 1)]
    systems = {
        "baseline": baseline,
        "better": [each + 0.05 for each in baseline],
        "equal": list(baseline),
        "alike": [each + other for each, other in zip(baseline, noise, strict=True)],
    }
    found = compare_segments("metric", systems, "reads:source")
    assert [each.system for each in found.systems] == list(systems)
    assert found.systems[0].p_value is None
    p_values = [each.p_value for each in found.systems[1:]]
    assert p_values[0] < 0.01
    assert p_values[1] == 1
    assert p_values[2] > 0.3
    assert found.segments["better"] == tuple(systems["better"])
