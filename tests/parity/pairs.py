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
from tests.clip_folder import CLASSES, START, clip, mask_of, padded, pictures
from tests.parity.cases import Case, flat, nested

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
    if case.model in CLASSES.values():
        theirs = saved_clip(case, folder)
        write_files(case, folder)
        return theirs
    torch.manual_seed(11)
    config = transformers.CONFIG_MAPPING[case.family](**{"attn_implementation": "eager", **case.settings})
    theirs = getattr(transformers, case.model)(config)
    if case.untied:
        theirs.lm_head.weight = nn.Parameter(torch.randn_like(theirs.lm_head.weight) * 0.3)
    perturbed(theirs)
    theirs.save_pretrained(folder)
    write_files(case, folder)
    return theirs


def saved_clip(case: Case, folder: Path) -> Any:
    """The CLIP of tests/clip_folder.py with the settings of a case."""
    [kind] = (kind for kind, model in CLASSES.items() if model == case.model)
    if kind == "both":
        towers = nested(case.settings)
        text, vision = towers.pop("text_config", None), towers.pop("vision_config", None)
        return clip(folder, kind, text=text, vision=vision, tokens=None, **towers)
    return clip(folder, kind, text=case.settings, vision=case.settings, tokens=None)  # it has one of them


def write_files(case: Case, folder: Path) -> None:
    """Writes the other files of the case."""
    for name, text in (case.files or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")


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
        case "image_text":
            return vectors(pair)
    frames = torch.randn(
        2, 2 * pair.config.max_source_positions, pair.config.num_features, generator=generator
    )
    target = ids(pair.config.vocab_size)[:2]
    there = theirs(frames.transpose(1, 2), decoder_input_ids=target)
    return pair.ours(frames, target), logits(theirs, there)


def vectors(pair: Pair) -> tuple[Tensor, Tensor]:
    """The vectors of texts and of images and their logits, as far as a CLIP has the towers, in a row."""
    config, theirs = pair.config, pair.theirs
    ids, lengths = padded()
    ids[0] = ids[0].where(ids[0] < START, 5)  # without special tokens each eos_token_id is another place
    texts = {"input_ids": ids, "attention_mask": mask_of(ids, lengths)}
    if config.image_size is None:
        return pair.ours.text_features(ids, lengths), vectors_of_tower(theirs(**texts))
    images = pictures({"image_size": config.image_size, "num_channels": config.channels})
    if config.vocab_size is None:
        return pair.ours.image_features(images), vectors_of_tower(theirs(pixel_values=images))
    ours = (
        pair.ours.text_features(ids, lengths),
        pair.ours.image_features(images),
        pair.ours(ids, lengths, images),
    )
    there = (
        theirs.get_text_features(**texts).pooler_output,
        theirs.get_image_features(pixel_values=images).pooler_output,
        theirs(**texts, pixel_values=images).logits_per_text,
    )
    return torch.cat([each.flatten() for each in ours]), torch.cat([each.flatten() for each in there])


def vectors_of_tower(found: Any) -> Tensor:
    """Projected by the class of transformers, if it has a projection."""
    names = ("text_embeds", "image_embeds", "pooler_output")
    return next(found[name] for name in names if name in found)


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


def flat_config_of(folder: Path) -> dict[str, Any]:
    """The settings of the config.json of a folder, as cases have them."""
    return flat(config_of(folder))
