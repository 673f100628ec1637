"""Which cases of one property run for every change, where they are all combinations of several lists."""

import itertools

import pytest


def each_once(*lists):
    """All combinations, for `pytest.mark.parametrize`: each value occurs in one that runs for every change.

    The others are marked `nightly`.
    """
    sizes = [len(each) for each in lists]
    kept = {tuple(number % size for size in sizes) for number in range(max(sizes))}
    return [
        pytest.param(*values, marks=() if places in kept else pytest.mark.nightly)
        for places, values in zip(
            itertools.product(*map(range, sizes)), itertools.product(*lists), strict=True
        )
    ]


def nightly_but(values, *kept):
    """The values, for `pytest.mark.parametrize`, of which only those kept run for every change."""
    assert {*kept} <= {*values}
    return [each if each in kept else pytest.param(each, marks=pytest.mark.nightly) for each in values]


def models_but(variants, kept):
    """A mark that gives the fixture `model` each variant by name; only those kept run for every change."""
    assert {*kept} <= {*variants}
    cases = [
        pytest.param(each, id=name, marks=() if name in kept else pytest.mark.nightly)
        for name, each in variants.items()
    ]
    return pytest.mark.parametrize("model", cases, indirect=True)


def name_of(value):
    """The name of a case, the same in each process: that of a function, or the value as text."""
    return getattr(value, "__name__", None) or str(value)
