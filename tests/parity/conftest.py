"""Small random pretrained models, saved by transformers and loaded by regard."""

import copy
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers
from torch import Tensor, nn

os.environ["HF_HUB_OFFLINE"] = "1"

from regard.weights.model_folder import LoadedModel, load_model
from regard.weights.names import renamed, write_names
from regard.weights.pretrained import FAMILIES, to_huggingface
from regard.weights.tensors import read_tensors
from tests.parity.cases import Case
from tests.parity.pairs import Pair, pair_of

Make = Callable[[Case], Pair]


@pytest.fixture(scope="session")
def make(tmp_path_factory) -> Make:
    """The pair of a case, made once."""
    made: dict[str, Pair] = {}

    def make(case: Case) -> Pair:
        if str(case) not in made:
            made[str(case)] = pair_of(case, tmp_path_factory.mktemp("pretrained") / "model")
        return made[str(case)]

    return make


@contextmanager
def listening(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """What each of `modules` gives, in the order of their calls."""
    heard: list[Tensor] = []
    handles = [module.register_forward_hook(lambda *call: heard.append(call[2])) for module in modules]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


@pytest.fixture(scope="session")
def listen() -> Callable[..., Any]:
    return listening


@pytest.fixture(scope="session")
def gradients_by_file_name(tmp_path_factory) -> Callable[[Pair], tuple[dict[str, Tensor], dict[str, Tensor]]]:
    """Those of ours and of theirs, by the names that the weights have in files; of theirs all that learn."""

    def gradients(pair: Pair) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        own = {
            name: torch.zeros_like(weight) if weight.grad is None else weight.grad
            for name, weight in pair.ours.named_parameters(remove_duplicate=False)
        }
        table = [
            dataclasses.replace(entry, offset=0.0)  # a gradient has none
            for entry in FAMILIES[pair.pretrained.family].table(pair.config)
        ]
        ours = write_names(table, {name: own[name] for name in {entry.ours for entry in table}})
        shadow = copy.deepcopy(pair.theirs)
        with torch.no_grad():
            for there, here in zip(shadow.parameters(), pair.theirs.parameters(), strict=True):
                there.copy_(torch.zeros_like(here) if here.grad is None else here.grad)
        folder = tmp_path_factory.mktemp("gradients")
        shadow.save_pretrained(folder)
        family = FAMILIES[pair.pretrained.family]
        theirs = read_tensors(folder / "model.safetensors")
        theirs = renamed(theirs, [*family.old_names(theirs), *family.renames])
        learned = {name: ours[name] for name in theirs if name in ours and name != "final_logits_bias"}
        return learned, {name: theirs[name] for name in learned}

    return gradients


@pytest.fixture(scope="session")
def given_back(tmp_path_factory) -> Callable[[Pair], Any]:
    """Theirs again, from a folder that we wrote of ours."""

    def back(pair: Pair) -> Any:
        folder = tmp_path_factory.mktemp("back")
        family, files, _ = to_huggingface(pair.pretrained.loaded, pair.pretrained.family)
        assert family == pair.pretrained.family
        from regard.weights.tensors import write_tensors

        for name, content in files.items():
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                write_tensors(folder / name, content)
        return theirs_of(folder)

    return back


def theirs_of(folder: Path) -> Any:
    """What transformers makes of a folder, all of it and nothing else."""
    import transformers

    architecture = json.loads((folder / "config.json").read_text("utf-8"))["architectures"][0]
    model, reported = getattr(transformers, architecture).from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    assert not reported["missing_keys"], reported
    assert not reported["unexpected_keys"], reported
    return model.eval()


@pytest.fixture(scope="session")
def through_folders(tmp_path_factory) -> Callable[[Pair], tuple[LoadedModel, Any]]:
    """What `regard convert` makes of their folder with a tokeniser, and theirs of what it makes of that."""

    def through(pair: Pair) -> tuple[LoadedModel, Any]:
        from regard.verbs.convert import convert

        folder = tmp_path_factory.mktemp("through")
        shutil.copytree(pair.folder, folder / "theirs")
        if pair.kind != "vision":
            write_a_tokeniser(folder / "theirs", pair)
        family = pair.pretrained.family
        assert convert(folder / "theirs", out=folder / "ours").family == family
        assert convert(folder / "ours", out=folder / "back", to="hf", family=family).family == family
        return load_model(folder / "ours"), theirs_of(folder / "back")

    return through


MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
OF_BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_a_tokeniser(folder: Path, pair: Pair) -> None:
    """Some file of each vocabulary, as large as the model's."""
    sizes = pair.config.to_dict()
    if sizes.get("src_vocab_size") != sizes.get("tgt_vocab_size"):
        write_two_vocabularies(folder, pair)
        return
    marks = OF_BERT if pair.pretrained.family in ("bert", "distilbert", "electra", "modernbert") else MARKS
    size = sizes.get("vocab_size") or sizes["src_vocab_size"]
    pieces = [*marks, *(f"w{number}" for number in range(size - len(marks)))]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    unk = next(mark for mark in marks if "unk" in mark.lower())
    backend = tokenizers.Tokenizer(models.WordLevel(numbers, unk_token=unk))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.save(str(folder / "tokenizer.json"))


def write_two_vocabularies(folder: Path, pair: Pair) -> None:
    import sentencepiece

    for side, file, size in (
        ("source", "vocab.json", pair.config.src_vocab_size),
        ("target", "target_vocab.json", pair.config.tgt_vocab_size),
    ):
        with open(folder / f"{side}.spm", "wb") as writer:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(["the cat sat on the mat", "dogs and logs"] * 9),
                model_writer=writer,
                vocab_size=24,
                hard_vocab_limit=False,
                minloglevel=2,
            )
        pieces = [*MARKS, *(f"w{number}" for number in range(size - len(MARKS)))]
        numbers = {piece: number for number, piece in enumerate(pieces)}
        (folder / file).write_text(json.dumps(numbers), "utf-8")
