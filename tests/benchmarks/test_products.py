"""All contenders use the library of matrix products that regard chooses, except the reference."""

import argparse

import pytest
import torch

from benchmarks import gpt, train
from benchmarks.common import products
from benchmarks.common.contender import Entry, contenders
from benchmarks.common.peak import Peak

OPTIONS = argparse.Namespace(threads=2, quick=True)


@pytest.mark.parametrize("workload", train.WORKLOADS.values(), ids=list(train.WORKLOADS))
def test_translators_have_the_same_library(workload):
    first, *others = train.entries_for(workload, OPTIONS, "medium")
    assert (first.name, first.matmul) == (train.REFERENCE, "highest")
    assert {each.matmul for each in others} == {"medium"}
    assert train.FASTER_REFERENCE in {each.name for each in others}


def test_language_models_have_the_same_library():
    first, *others = gpt.training_entries("none", OPTIONS, "medium")
    assert (first.name, first.matmul) == (gpt.NANO, "highest")
    assert {each.matmul for each in others} == {"medium"}


def test_no_row_stands_twice_where_the_default_is_best():
    names = [each.name for each in train.entries_for(train.WORKLOADS["paper"], OPTIONS, "highest")]
    assert train.FASTER_REFERENCE not in names
    assert len(set(names)) == len(names)


def test_all_contenders_have_the_same_threads_in_all():
    entries = train.entries_for(train.WORKLOADS["paper"], OPTIONS, "medium")
    assert {each.name: each.threads for each in entries if each.threads == 1}.keys() == {
        train.WORKERS,
        train.TWO_PROCESSES,
    }


class Setting:
    """A contender that tells its setting."""

    def setting(self):
        return torch.get_float32_matmul_precision()


@pytest.mark.parametrize("matmul", [pytest.param("highest", marks=pytest.mark.nightly), "medium"])
def test_a_contenders_process_has_its_setting(matmul):
    entry = Entry(name="one", make=f"{__name__}:Setting", matmul=matmul)
    with contenders([entry]) as (one,):
        assert one.ask("setting") == matmul


def test_the_peak_is_that_of_the_fastest_exact_library():
    found = Peak(threads=1).round(0.01)
    assert found["gflop"] == max(found["rates"].values())
    assert any(products.LIBRARIES["highest"] in name for name in found["rates"])
