"""A model as a folder that another engine reads, written only if its certificate passes.

The folder has the engine's files, the tokenisers and decoding defaults of the model, `CERTIFICATE.json` and
`MANIFEST.json`.
"""

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from regard.data.tokenizer import Tokenizer
from regard.errors import RunError, UserError
from regard.exports.certificate import (
    BEAM_SIZE,
    BOUNDS,
    Bounds,
    Comparison,
    EngineOutput,
    Quantization,
    compare_log_probs,
    compare_outputs,
)
from regard.exports.certified_sequences import CertifiedSequences, certified_sequences
from regard.exports.encoder_certificate import EncoderComparison
from regard.exports.plain_reference import ContinuationReference, PlainReference, TranslationReference
from regard.exports.registered_kinds import TRACED_CALLS
from regard.exports.unapplied_defaults import UNAPPLIED, unapplied_defaults
from regard.models.build import base_kind, is_registered
from regard.models.config import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.folder import write_folder
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes

CERTIFICATE = "CERTIFICATE.json"
EXPORT = "export.json"
FORMAT_VERSION = 1
MOST_NEW = 48  # tokens of an output for the certificate
MOST_READ = 256  # ids of a text for it
MOST_LISTED = 100  # texts that the certificate lists; of more it has the hash alone
PROCESS_TIMEOUT = 4 * 3600
Generating = EncoderDecoderConfig | DecoderOnlyConfig


def origin(quantization: Quantization) -> str:
    """Where the files of an export come from, a sentence of its README without the full stop."""
    return (
        f"Written by regard {version('regard')}, weights in {quantization}. `{CERTIFICATE}` has what was"
        " compared with\nregard's own outputs, and how"
    )


@dataclass(frozen=True, kw_only=True)
class EncoderTarget:
    """Another engine: how a model is written for it, and how it is asked; encoders need no more."""

    name: str  # in messages
    key: str  # of `regard export --to`
    process: str  # the module that answers a job in a process of its own
    save: Callable[[LoadedModel, Path, Quantization], None]  # writes the engine's own files
    card: Callable[[LoadedModel, Quantization], str]  # README.md


@dataclass(frozen=True, kw_only=True)
class Target(EncoderTarget):
    """Another engine for models that generate text."""

    known: Callable[[ModelConfig], Generating]  # the config, unless the engine does not have a setting
    most_positions: Callable[[Generating], int | None]
    names: Callable[[Tokenizer], Sequence[Hashable]] = lambda tokenizer: range(
        tokenizer.vocab_size
    )  # what the engine calls each id
    equal_ids: float | None = None  # if it has the tokeniser too: the least share of texts with the same ids
    reads_unknown: bool = True  # False: it leaves out what the vocabulary lacks
    before_text: Callable[[LoadedModel], str] = lambda loaded: ""  # what a text must begin with there
    applied: Callable[[LoadedModel], Collection[str]]  # the names of the decoding defaults that it applies
    bounds: Callable[[ModelConfig, Quantization], Bounds] = lambda config, quantization: BOUNDS[quantization]


def export_certified(
    target: Target,
    loaded: LoadedModel,
    out: Path,
    *,
    quantization: Quantization = "float32",
    texts: Sequence[str] | None = None,
    notes: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write the folder `out`; returns its certificate, which has the `notes` too.

    Raises:
        NotExpressible: the engine does not have a setting of the model.
        RunError: its outputs are further from regard's than the certificate allows; nothing is written.
        MissingExtra: the engine is not installed.
    """
    config = target.known(loaded.config)
    return write_if_certified(
        target,
        loaded,
        out,
        lambda folder: compared(target, loaded, folder, texts, quantization),
        quantization=quantization,
        most_positions=target.most_positions(config),
        notes={**notes, UNAPPLIED: unapplied_defaults(loaded, target.applied(loaded))},
    )


def write_if_certified(
    target: EncoderTarget,
    loaded: LoadedModel,
    out: Path,
    compare: Callable[[Path], tuple[Comparison | EncoderComparison, dict[str, Any]]],
    *,
    quantization: Quantization,
    most_positions: int | None,
    notes: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write the engine's files, `compare` them, and keep them in `out` if they pass; the certificate."""
    if loaded.model.device.type != "cpu":
        raise UserError("a model on a GPU cannot be compared", "load it with device = 'cpu'")
    with tempfile.TemporaryDirectory() as folder:
        target.save(loaded, Path(folder), quantization)
        files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
        comparison, facts = compare(Path(folder))
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    certificate = {**facts, **notes, "files": hashes, **comparison.to_dict()}
    if comparison.failures:
        raise failed(target.name, comparison.failures, quantization, loaded.config)
    card = target.card(loaded, quantization)
    _write_certified(out, files, loaded, certificate, most_positions=most_positions, card=card)
    return certificate


def _write_certified(
    out: Path,
    files: Mapping[str, bytes],
    loaded: LoadedModel,
    certificate: Mapping[str, Any],
    *,
    most_positions: int | None,
    card: str,
) -> None:
    """Write the folder `out`: the engine's files, and what every export has."""
    config = loaded.config
    export = {
        "format_version": FORMAT_VERSION,
        "target": certificate["target"],
        "kind": config.kind,
        "quantization": certificate["quantization"],
        "most_positions": most_positions,
        "settings": config.to_dict(),
    }
    others = {
        **{name: content for name, content in loaded.tokenizers.files().items() if name not in files},
        **({"generation.json": json_bytes(loaded.generation)} if config.generates else {}),
        EXPORT: json_bytes(export),
        CERTIFICATE: json_bytes(certificate),
        "README.md": card.encode(),
    }
    if clash := files.keys() & others.keys():
        raise AssertionError(f"two files are called {min(clash)}")
    write_folder(out, {**files, **others})


def failed(engine: str, failures: Sequence[str], quantization: Quantization, config: ModelConfig) -> RunError:
    """The error of a certificate whose bounds do not hold."""
    if any("ids" in line or "pieces" in line for line in failures):
        hint = "try texts of the model's own kind"
    elif quantization == "float32" and is_registered(config):
        hint = TRACED_CALLS
    elif quantization == "float32":
        hint = "please report this with the model's config.json"
    else:
        exact = "float16 or float32" if quantization == "int8" else "float32"
        hint = (
            f"take --quantization {exact}, or --texts with texts of the model's own kind; or train it longer:"
            " a model that is hardly trained is unsure of most tokens, and small changes decide"
        )
    return RunError(
        f"{engine} does not compute what regard does: {'; '.join(failures)}", f"nothing was written; {hint}"
    )


def compared(
    target: Target,
    loaded: LoadedModel,
    folder: Path,
    texts: Sequence[str] | None,
    quantization: Quantization = "float32",
    *,
    most_new: int = MOST_NEW,
    compute: Callable[[Any], dict[str, Any]] | None = None,
) -> tuple[Comparison, dict[str, Any]]:
    """Compare the outputs of a saved folder with the model's; and the facts of its certificate.

    `compute` answers the job of the other engine; by default in a process of its own.
    """
    config = target.known(loaded.config)
    positions = target.most_positions(config) or MOST_READ + MOST_NEW + 1
    new = max(1, min(most_new, positions // 2 - 1))
    reference, begin = _reference(config, loaded)
    most = max(2, min(MOST_READ, positions - new - 1))
    sequences = certified_sequences(loaded.tokenizers, texts, most=most, begin=begin)
    greedy, beam = (reference.outputs(sequences.sources, size, new) for size in (1, BEAM_SIZE))
    forced = [
        *((given, each.ids) for given, each in zip(sequences.sources, greedy, strict=True) if each.ids),
        *sequences.covering,
    ]
    sides = target.names(loaded.tokenizers.source), target.names(loaded.tokenizers.target)
    job = _job(target, loaded, folder, sides, sequences, forced, longest=new)
    answer = in_own_process(target.process, target.name, job) if compute is None else compute(job)
    numbers = {name: number for number, name in enumerate(sides[1])}
    eos_id = loaded.tokenizers.target.eos_id
    theirs = {name: _engine_outputs(answer[name], numbers, eos_id) for name in ("greedy", "beam")}
    comparison = Comparison(
        greedy=compare_outputs(reference, sequences.sources, greedy, theirs["greedy"], beam=False),
        beam=compare_outputs(reference, sequences.sources, beam, theirs["beam"], beam=True),
        log_probs=compare_log_probs(reference.forced(forced), answer["log_probs"]),
        bounds=target.bounds(config, quantization),
        ids=None if target.equal_ids is None else _equal_ids(target, loaded, sequences.texts, answer["ids"]),
        least_ids=target.equal_ids,
    )
    facts = facts_of(sequences, answer["versions"], made=texts is None)
    if "tokenizers" in answer:  # the engine has tokenisers of its own, which are equal
        facts["tokenizers"] = answer["tokenizers"]
    return comparison, {"target": target.key, "quantization": quantization, **facts}


def _reference(config: Generating, loaded: LoadedModel) -> tuple[PlainReference, tuple[int, ...]]:
    """The plain decoding of the model, and the ids that its sources begin with."""
    if isinstance(config, EncoderDecoderConfig):
        return TranslationReference(loaded.model, loaded.tokenizers), ()
    begin = (loaded.tokenizers.target.bos_id,) if begins(loaded) else ()
    return ContinuationReference(loaded.model, loaded.tokenizers), begin


def _job(
    target: Target,
    loaded: LoadedModel,
    folder: Path,
    sides: tuple[Sequence[Hashable], Sequence[Hashable]],
    sequences: CertifiedSequences,
    forced: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    longest: int,
) -> dict[str, Any]:
    """What the other engine is asked; `sides` are its names of source ids and of target ids."""
    config = target.known(loaded.config)
    return {
        "folder": str(folder),
        "kind": base_kind(config),  # what the engine does with it
        "sources": [[sides[0][number] for number in ids] for ids in sequences.sources],
        "forced": [
            [[side[number] for number in ids] for side, ids in zip(sides, pair, strict=True)]
            for pair in forced
        ],
        "longest": longest,
        "beam": BEAM_SIZE,
        "threads": torch.get_num_threads(),
        "end": sides[1][loaded.tokenizers.target.eos_id],
        "source_end": sides[0][loaded.tokenizers.source.eos_id],
        "most_positions": target.most_positions(config),
        "texts": [target.before_text(loaded) + text for text in sequences.texts],
    }


def _equal_ids(
    target: Target, loaded: LoadedModel, texts: Sequence[str], found: Sequence[list[int]]
) -> float:
    """The share of texts whose ids are regard's."""
    tokenizer = loaded.tokenizers.source
    ours = tokenizer.encode_batch(list(texts))
    if not target.reads_unknown:
        ours = [[number for number in ids if number != tokenizer.unk_id] for ids in ours]
    return sum(own == other for own, other in zip(ours, found, strict=True)) / len(ours)


def facts_of(sequences: CertifiedSequences, versions: Mapping[str, str], *, made: bool) -> dict[str, Any]:
    """What a certificate has of its texts and of the programs."""
    joined = "\n".join(sequences.texts)
    listed = {"lines": list(sequences.texts)} if len(sequences.texts) <= MOST_LISTED else {}
    return {
        "versions": {
            "regard": version("regard"),
            "torch": torch.__version__,
            "platform": f"{platform.system()} {platform.machine()}",
            **versions,
        },
        "texts": {
            "count": len(sequences.texts),
            "from": "random pieces of the vocabulary" if made else "the user",
            "sha256": hashlib.sha256(joined.encode()).hexdigest(),
            **listed,
        },
        "vocabulary_forced": sequences.covered,
    }


def in_own_process(module: str, engine: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a module computes in a process of its own; `engine` is for messages."""
    child = subprocess.run(  # noqa: S603 (a module of regard)
        [sys.executable, "-m", module],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PROCESS_TIMEOUT,
        check=False,
    )
    try:
        if child.returncode == 0:
            return json.loads(child.stdout)
    except ValueError:
        pass
    why = (child.stderr.strip().splitlines() or [f"its process ended with {child.returncode}"])[-1]
    raise RunError(f"{engine} cannot run the export: {why[:300]}", "nothing was written; please report this")


def _engine_outputs(
    found: Sequence[Sequence[Any]], numbers: Mapping[Hashable, int], eos_id: int
) -> list[EngineOutput]:
    outputs = []
    for tokens, score in found:
        ids = [numbers[token] for token in tokens]
        ended = ids[-1:] == [eos_id]
        outputs.append(EngineOutput(ids=ids[:-1] if ended else ids, ended=ended, score=score))
    return outputs


def begins(loaded: LoadedModel) -> bool:
    """True if a text of this decoder-only model begins with <s>."""
    return bool(loaded.generation.get("begin", True))
