"""Checkpoints of fairseq give its logits and its ids."""

import json
import re
import shutil
from argparse import Namespace

import pytest
import torch

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits import fairseq
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.comparison import same_as_expected
from tests.weights.toolkits.peers import FIXTURES, made_by

MADE = sorted(path for path in (FIXTURES / "fairseq").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", MADE, ids=lambda path: path.name)
def test_logits_and_ids_are_those_of_fairseq(folder, in_this_process):
    same_as_expected(folder, "fairseq")


def test_checkpoints_that_fairseq_makes_now_are_read(tmp_path):
    for folder in made_by("fairseq", tmp_path):
        same_as_expected(folder, "fairseq")


def test_pre_norm_without_a_norm_after_the_stack_is_refused(tmp_path, in_this_process):
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "fairseq" / "pre-norm", folder)
    with torch.serialization.safe_globals([Namespace]):
        state = torch.load(folder / "model.pt", weights_only=True)
    for version in ([2.0], [3.0, 3.0]):
        state["model"]["decoder.version"] = torch.tensor(version)
        torch.save(state, folder / "model.pt")
        with pytest.raises(FolderError, match=rf"decoder\.version = {re.escape(str(version))}"):
            load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    state["model"]["decoder.version"] = torch.tensor([3.0])
    torch.save(state, folder / "model.pt")
    load_toolkit(toolkit_of(folder), folder, trust_pickle=True)


@pytest.mark.parametrize("shape", [(), (2,), (4, 8)], ids=str)
def test_query_key_and_value_of_an_old_checkpoint_have_equally_many_rows(tmp_path, shape):
    name = "encoder.layers.0.self_attn.in_proj_weight"
    message = re.escape(f"{name!r} {list(shape)} is not three tensors")
    with pytest.raises(FolderError, match=message) as caught:
        fairseq._tensors({name: torch.ones(shape)}, tmp_path)
    assert caught.value.hint
    whole = fairseq._tensors({name: torch.arange(6.0)}, tmp_path)
    stem = name.removesuffix("in_proj_weight")
    assert {key: each.tolist() for key, each in whole.items()} == {
        f"{stem}q_proj.weight": [0, 1],
        f"{stem}k_proj.weight": [2, 3],
        f"{stem}v_proj.weight": [4, 5],
    }


def test_codes_of_fastbpe_words_and_damaged_dictionaries(tmp_path, in_this_process):
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "fairseq" / "shared", folder)
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    lines = (folder / "bpecodes").read_text("utf-8").splitlines()[1:]
    (folder / "bpecodes").write_text(
        "".join(f"{line} {9 - n % 3}\n" for n, line in enumerate(lines)), "utf-8"
    )
    tokenizer = load_toolkit(toolkit_of(folder), folder, trust_pickle=True).loaded.tokenizers.source
    assert [tokenizer.encode(text) for text in expected["texts"]] == expected["ids"]
    (folder / "bpecodes").unlink()
    tokenizer = load_toolkit(toolkit_of(folder), folder, trust_pickle=True).loaded.tokenizers.source
    assert tokenizer.tokens(tokenizer.encode("the lo@@ w other")) == ["the", "lo@@", "w", "<unk>"]
    (folder / "dict.xx.txt").write_text("the 3\nthe 2\n", "utf-8")
    with pytest.raises(FolderError, match="line 2"):
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)


def test_settings_of_decoding_are_those_of_fairseq_generate(tmp_path, forked_reader):
    folder = FIXTURES / "fairseq" / "output"
    assert run(["convert", str(folder), "--trust-pickle", "--out", str(tmp_path / "model")]) == 0
    generation = regard.load(tmp_path / "model").generation
    assert (generation["beam_size"], generation["alpha"], generation["min_length"]) == (4, 0.6, 2)
    assert generation["early_stopping"]
    assert run(["translate", "the lowest house", "--model", str(tmp_path / "model"), "--device", "cpu"]) == 0
