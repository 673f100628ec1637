"""Small random models of other makers, saved by transformers and loaded by us."""

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

os.environ["HF_HUB_OFFLINE"] = "1"

from regard.weights.names import renamed, write_names
from regard.weights.pretrained import FAMILIES, Pretrained, load_pretrained, to_foreign
from regard.weights.tensors import read_tensors


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A model of theirs, the folder that it was saved into, and ours, loaded from that folder."""

    theirs: Any
    ours: Any
    pretrained: Pretrained
    folder: Path
    kind: str

    @property
    def config(self) -> Any:
        return self.ours.config


Make = Callable[..., Pair]


def perturbed(model: Any) -> Any:
    """No weight as it was made: zero biases and gains of one hide what is in the wrong place."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if model.config.model_type == "marian" and "embed_positions" in name:
                continue  # fixed, and in no file
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        for name, buffer in model.named_buffers():
            if name.endswith("final_logits_bias"):
                buffer += torch.randn(buffer.shape, generator=generator)
    return model.eval()


@pytest.fixture(scope="session")
def make(tmp_path_factory) -> Make:
    """A pair of a class and a config of transformers, made once for each name."""
    import transformers

    made: dict[str, Pair] = {}

    def make(
        name: str, model: str, config: str, settings: Mapping[str, Any], *, untied: bool = False
    ) -> Pair:
        if name not in made:
            torch.manual_seed(11)
            theirs = getattr(transformers, model)(
                getattr(transformers, config)(attn_implementation="eager", **settings)
            )
            if untied:
                theirs.lm_head.weight = nn.Parameter(torch.randn_like(theirs.lm_head.weight) * 0.3)
            perturbed(theirs)
            folder = tmp_path_factory.mktemp("foreign") / "model"
            theirs.save_pretrained(folder)
            pretrained = load_pretrained(folder)
            made[name] = Pair(
                theirs=theirs,
                ours=pretrained.loaded.model,
                pretrained=pretrained,
                folder=folder,
                kind=pretrained.loaded.config.kind,
            )
        return made[name]

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
        table = FAMILIES[pair.pretrained.family].table(pair.config)
        ours = write_names(table, {name: own[name] for name in {entry.ours for entry in table}})
        shadow = copy.deepcopy(pair.theirs)
        with torch.no_grad():
            for there, here in zip(shadow.parameters(), pair.theirs.parameters(), strict=True):
                there.copy_(torch.zeros_like(here) if here.grad is None else here.grad)
        folder = tmp_path_factory.mktemp("gradients")
        shadow.save_pretrained(folder)
        family = FAMILIES[pair.pretrained.family]
        theirs = read_tensors(folder / "model.safetensors")
        theirs = renamed(theirs, [*family.old_names(theirs), *family.changes])
        learned = {name: ours[name] for name in theirs if name in ours and name != "final_logits_bias"}
        return learned, {name: theirs[name] for name in learned}

    return gradients


@pytest.fixture(scope="session")
def given_back(tmp_path_factory) -> Callable[[Pair], Any]:
    """Theirs again, from a folder that we wrote of ours."""

    def back(pair: Pair) -> Any:
        import transformers

        folder = tmp_path_factory.mktemp("back")
        family, files = to_foreign(pair.pretrained.loaded, pair.pretrained.family)
        assert family == pair.pretrained.family
        from regard.weights.tensors import write_tensors

        for name, content in files.items():
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                write_tensors(folder / name, content)
        architecture = json.loads(files["config.json"])["architectures"][0]
        model, told = getattr(transformers, architecture).from_pretrained(
            folder, attn_implementation="eager", output_loading_info=True
        )
        assert not told["missing_keys"], told
        assert not told["unexpected_keys"], told
        return model.eval()

    return back
