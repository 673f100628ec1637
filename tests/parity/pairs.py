"""A random model of transformers, saved by it and loaded by regard; and what both compute."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from regard.decoding.hypothesis import Request
from regard.decoding.settings import GenerationSettings
from regard.decoding.step import ModelStepper
from regard.recipe import read
from regard.weights.pretrained import PretrainedModel, load_pretrained
from tests.parity.cases import Case

LENGTHS = torch.tensor([9, 4, 2])
REAL = torch.arange(9) < LENGTHS[:, None]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A model of theirs, the folder that it was saved into, and ours, loaded from that folder."""

    theirs: Any
    ours: Any
    pretrained: PretrainedModel
    folder: Path
    kind: str

    @property
    def config(self) -> Any:
        return self.ours.config


def perturbed(model: Any) -> Any:
    """No weight as it was made: zero biases and gains of one hide what is in the wrong place."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if model.config.model_type in ("marian", "pegasus") and "embed_positions" in name:
                continue  # fixed
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        for name, buffer in model.named_buffers():
            if name.endswith("final_logits_bias"):
                buffer += torch.randn(buffer.shape, generator=generator)
    return model.eval()


def saved(case: Case, folder: Path) -> Any:
    """The model of transformers, saved into a folder."""
    if case.family == "whisper":
        from tests.whisper_folder import whisper

        return whisper(folder, config=case.settings)
    torch.manual_seed(11)
    config = transformers.CONFIG_MAPPING[case.family](**{"attn_implementation": "eager", **case.settings})
    theirs = getattr(transformers, case.model)(config)
    if case.untied:
        theirs.lm_head.weight = nn.Parameter(torch.randn_like(theirs.lm_head.weight) * 0.3)
    perturbed(theirs)
    theirs.save_pretrained(folder)
    for name, text in (case.files or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return theirs


def pair_of(case: Case, folder: Path) -> Pair:
    """The model of transformers, and what regard makes of its folder.

    Raises:
        FolderError: regard does not read it.
    """
    theirs = saved(case, folder)
    if case.older is not None:
        theirs = rewritten(folder, case)
    pretrained = load_pretrained(folder)
    return Pair(
        theirs=theirs,
        ours=pretrained.loaded.model,
        pretrained=pretrained,
        folder=folder,
        kind=pretrained.loaded.config.kind,
    )


def rewritten(folder: Path, case: Case) -> Any:
    """The model of a folder with an older config.json, as transformers reads it."""
    table = {**config_of(folder), **(case.older or {})}
    table = {name: value for name, value in table.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(table), "utf-8")
    return getattr(transformers, case.model).from_pretrained(folder, attn_implementation="eager").eval()


def answers(pair: Pair, ours: Tensor, theirs: Any) -> tuple[Tensor, Tensor]:
    """The outputs of both encoders at places that are not padding, in one form."""
    match pair.config.head:
        case "none":
            return ours[REAL], theirs.last_hidden_state[REAL]
        case "pooled" if not pair.config.pooler:
            return ours, pooled(pair.config, theirs.last_hidden_state)
        case "pooled":
            return ours, theirs.pooler_output
        case "spans":
            there = torch.stack([theirs.start_logits, theirs.end_logits], dim=1)
            return ours.transpose(1, 2)[REAL], there.transpose(1, 2)[REAL]
        case "regression":
            return ours, theirs.logits[:, 0]
        case "classification":
            return ours, theirs.logits
    there = theirs.prediction_logits if "prediction_logits" in theirs else theirs.logits
    return ours[REAL], there[REAL]


def pooled(config: Any, states: Tensor) -> Tensor:
    """The vectors of sentence-transformers, by its formulas."""
    match config.pooling:
        case "cls":
            found = states[:, 0]
        case "mean":
            found = (states * REAL[..., None]).sum(dim=1) / LENGTHS[:, None]
        case _:
            found = states.masked_fill(~REAL[..., None], -torch.inf).amax(dim=1)
    return F.normalize(found, dim=-1) if config.normalised else found


@torch.no_grad()
def outputs(pair: Pair) -> tuple[Tensor, Tensor]:
    """What ours and theirs compute of the same ids, images or frames, at places that are not padding."""
    generator = torch.Generator().manual_seed(2)
    theirs = pair.theirs

    def ids(size: int) -> Tensor:
        return torch.randint(3, size, (3, 9), generator=generator)

    match pair.kind:
        case "decoder_only":
            tokens = ids(pair.config.vocab_size)
            return pair.ours(tokens)[REAL], theirs(tokens, attention_mask=REAL.long()).logits[REAL]
        case "encoder_only":
            tokens = ids(pair.config.vocab_size).where(REAL, pair.config.pad_id)
            types = None if pair.config.num_token_types < 2 else (torch.arange(9) >= 2).long().expand(3, 9)
            typed = {} if types is None else {"token_type_ids": types}
            ours = pair.ours(tokens, LENGTHS, types)
            return answers(pair, ours, theirs(tokens, attention_mask=REAL.long(), **typed))
        case "encoder_decoder":
            tokens = ids(pair.config.src_vocab_size).where(REAL, pair.config.pad_id)
            target = ids(pair.config.tgt_vocab_size)
            target[:, 0] = theirs.config.decoder_start_token_id
            there = theirs(tokens, attention_mask=REAL.long(), decoder_input_ids=target)
            return pair.ours(tokens, LENGTHS, target), logits(theirs, there)
        case "vision":
            config = pair.config
            shape = (3, config.channels, config.image_size, config.image_size)
            images = torch.randn(shape, generator=generator)
            return pair.ours(images), theirs(images).logits
    frames = torch.randn(
        2, 2 * pair.config.max_source_positions, pair.config.num_features, generator=generator
    )
    target = ids(pair.config.vocab_size)[:2]
    there = theirs(frames.transpose(1, 2), decoder_input_ids=target)
    return pair.ours(frames, target), logits(theirs, there)


def logits(theirs: Any, found: Any) -> Tensor:
    """Their logits; those of a class without a head are of the head of the others, the embeddings."""
    if "logits" in found:
        return found.logits
    states = found.last_hidden_state
    if theirs.config.model_type == "t5":
        states = states * theirs.config.d_model**-0.5
    return states @ theirs.get_input_embeddings().weight.T


def are_equal(pair: Pair) -> bool:
    """True if both compute the same to 1e-5, of T5 and Whisper to 1e-5 of the largest logit."""
    ours, theirs = outputs(pair)
    scale = max(1.0, float(theirs.abs().max())) if pair.pretrained.family in ("t5", "whisper") else 1.0
    return torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5 * scale)


@torch.no_grad()
def generates_the_same(pair: Pair, settings: Mapping[str, Any]) -> bool:
    """True if both search the same tokens greedily, with these settings of generation_config.json."""
    ids = torch.randint(3, pair.config.src_vocab_size, (3, 9), generator=torch.Generator().manual_seed(2))
    marks = {name: getattr(pair.theirs.config, name) for name in ("pad_token_id", "eos_token_id")}
    start = pair.theirs.config.decoder_start_token_id
    asked = transformers.GenerationConfig(**settings, **marks, decoder_start_token_id=start, num_beams=1)
    theirs = pair.theirs.generate(ids, attention_mask=torch.ones_like(ids), generation_config=asked).tolist()
    search = read(GenerationSettings, pair.pretrained.loaded.generation).strategy(
        pad_id=marks["pad_token_id"], bos_id=start, eos_id=marks["eos_token_id"]
    )
    stepper = ModelStepper(pair.ours)
    stepper.start(ids, torch.full((3,), 9))
    found = [list(best.ids) for [best, *_] in search(stepper, [Request(src_len=9)] * 3)]
    ends = (marks["eos_token_id"], marks["pad_token_id"])
    return found == [[each for each in row[1:] if each not in ends] for row in theirs]


def config_of(folder: Path) -> dict[str, Any]:
    """The config.json of a folder."""
    return json.loads((folder / "config.json").read_text("utf-8"))
