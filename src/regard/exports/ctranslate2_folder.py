"""A model as a folder that CTranslate2 reads, written only if its certificate passes.

The folder has CTranslate2's files, the tokenisers and decoding defaults of the model, `CERTIFICATE.json` and
`MANIFEST.json`.
"""

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.errors import RunError, UserError
from regard.exports.certificate import (
    BEAM_SIZE,
    BOUNDS,
    Comparison,
    EngineOutput,
    Quantization,
    compare_log_probs,
    compare_outputs,
)
from regard.exports.certified_sequences import CertifiedSequences, certified_sequences
from regard.exports.ctranslate2_calls import CONTINUATION_CALL, TRANSLATION_CALL
from regard.exports.ctranslate2_decoder_only import decoder_only_spec
from regard.exports.ctranslate2_encoder_decoder import encoder_decoder_spec
from regard.exports.ctranslate2_layers import most_positions, norm_epsilon
from regard.exports.ctranslate2_package import ctranslate2
from regard.exports.ctranslate2_settings import refuse_other_settings
from regard.exports.model_weights import ModelWeights
from regard.exports.plain_reference import ContinuationReference, PlainReference, TranslationReference
from regard.models.config import ModelConfig
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


def export_to_ctranslate2(
    loaded: LoadedModel,
    out: Path,
    *,
    quantization: Quantization = "float32",
    texts: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write the folder `out`; returns its certificate.

    Raises:
        NotExpressible: CTranslate2 does not have a setting of the model.
        RunError: its outputs are further from regard's than the certificate allows; nothing is written.
        MissingExtra: ctranslate2 is not installed.
    """
    config = refuse_other_settings(loaded.config)
    if loaded.model.device.type != "cpu":
        raise UserError("a model on a GPU cannot be compared", "load it with device = 'cpu'")
    with tempfile.TemporaryDirectory() as folder:
        save(loaded, Path(folder), quantization)
        files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
        comparison, facts = compared(loaded, Path(folder), texts, quantization)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    certificate = {**facts, "files": hashes, **comparison.to_dict()}
    if comparison.failures:
        raise RunError(
            f"CTranslate2 does not compute what regard does: {'; '.join(comparison.failures)}",
            "nothing was written; please report this with the model's config.json"
            if quantization == "float32"
            else "nothing was written; try another quantization, or texts of the model's own kind",
        )
    export = {
        "format_version": FORMAT_VERSION,
        "target": "ctranslate2",
        "kind": config.kind,
        "quantization": quantization,
        "most_positions": most_positions(config),
        "settings": config.to_dict(),
    }
    others = {
        **loaded.tokenizers.files(),
        "generation.json": json_bytes(loaded.generation),
        EXPORT: json_bytes(export),
        CERTIFICATE: json_bytes(certificate),
        "README.md": _card(loaded, quantization).encode(),
    }
    if clash := files.keys() & others.keys():
        raise AssertionError(f"two files are called {min(clash)}")
    write_folder(out, {**files, **others})
    return certificate


def pieces(tokenizer: Tokenizer) -> list[str]:
    """The piece of each id; an id without one, or with that of another id, is called by its number."""
    special = [tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id]
    names = tokenizer.tokens(range(tokenizer.vocab_size))
    owners = {names[number]: number for number in reversed([*special, *range(len(names))])}
    return [name if owners[name] == number else f"<id {number}>" for number, name in enumerate(names)]


def save(loaded: LoadedModel, folder: Path, quantization: Quantization = "float32") -> None:
    """Write CTranslate2's own files of a model into a folder.

    Raises:
        NotExpressible: CTranslate2 does not have a setting of the model.
    """
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    vocabularies = pieces(source), pieces(target)
    special = {}
    for name in ("unk", "bos", "eos"):
        of_source, special[name] = (
            names[getattr(each, f"{name}_id")]
            for names, each in zip(vocabularies, (source, target), strict=True)
        )
        if of_source != special[name]:
            raise UserError(
                f"the {name} token is {of_source!r} in the source and {special[name]!r} in the target",
                "CTranslate2 has one name for both: train tokenisers of one kind",
            )
    write_engine_files(loaded.config, loaded.model.state_dict(), vocabularies, special, folder, quantization)


def write_engine_files(
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    vocabularies: tuple[list[str], list[str]],
    special: Mapping[str, str],
    folder: Path,
    quantization: Quantization = "float32",
) -> None:
    """As `save`, from weights by name; `special` has the pieces called "unk", "bos" and "eos"."""
    known = refuse_other_settings(config)
    ctranslate2()
    with ModelWeights.all_of(tensors) as weights:
        if isinstance(known, EncoderDecoderConfig):
            spec = encoder_decoder_spec(known, weights)
            spec.register_source_vocabulary(vocabularies[0])
            spec.register_target_vocabulary(vocabularies[1])
            spec.config.add_source_eos = True
            spec.config.decoder_start_token = special["bos"]
        else:
            spec = decoder_only_spec(known, weights)
            spec.register_vocabulary(vocabularies[1])
    for name, piece in special.items():
        setattr(spec.config, f"{name}_token", piece)
    spec.config.layer_norm_epsilon = norm_epsilon(known)
    try:
        spec.validate()
    except ValueError as error:
        raise RunError(f"CTranslate2 refuses the specification: {error}", "please report this") from error
    spec.optimize(quantization)
    spec.save(str(folder))


def compared(
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
    config = refuse_other_settings(loaded.config)
    positions = most_positions(config) or MOST_READ + MOST_NEW + 1
    new = max(1, min(most_new, positions // 2 - 1))
    begin: tuple[int, ...] = ()
    reference: PlainReference
    if isinstance(config, EncoderDecoderConfig):
        reference = TranslationReference(loaded.model, loaded.tokenizers)
    else:
        reference = ContinuationReference(loaded.model, loaded.tokenizers)
        begin = (loaded.tokenizers.target.bos_id,) if begins(loaded) else ()
    most = max(2, min(MOST_READ, positions - new - 1))
    sequences = certified_sequences(loaded.tokenizers, texts, most=most, begin=begin)
    greedy, beam = (reference.outputs(sequences.sources, size, new) for size in (1, BEAM_SIZE))
    forced = [
        *((given, each.ids) for given, each in zip(sequences.sources, greedy, strict=True) if each.ids),
        *sequences.covering,
    ]
    sides = pieces(loaded.tokenizers.source), pieces(loaded.tokenizers.target)
    answer = (compute or _in_own_process)(
        {
            "folder": str(folder),
            "kind": config.kind,
            "sources": [[sides[0][number] for number in ids] for ids in sequences.sources],
            "forced": [
                [[side[number] for number in ids] for side, ids in zip(sides, pair, strict=True)]
                for pair in forced
            ],
            "longest": new,
            "beam": BEAM_SIZE,
            "threads": torch.get_num_threads(),
        }
    )
    theirs = {name: _engine_outputs(answer[name], loaded.tokenizers.target) for name in ("greedy", "beam")}
    comparison = Comparison(
        greedy=compare_outputs(reference, sequences.sources, greedy, theirs["greedy"], beam=False),
        beam=compare_outputs(reference, sequences.sources, beam, theirs["beam"], beam=True),
        log_probs=compare_log_probs(reference.forced(forced), answer["log_probs"]),
        bounds=BOUNDS[quantization],
    )
    return comparison, _facts(sequences, answer["versions"], quantization, made=texts is None)


def _facts(
    sequences: CertifiedSequences, versions: Mapping[str, str], quantization: Quantization, *, made: bool
) -> dict[str, Any]:
    joined = "\n".join(sequences.texts)
    listed = {"lines": list(sequences.texts)} if len(sequences.texts) <= MOST_LISTED else {}
    return {
        "target": "ctranslate2",
        "quantization": quantization,
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


def _in_own_process(job: Mapping[str, Any]) -> dict[str, Any]:
    """What CTranslate2 computes in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-m", "regard.exports.ctranslate2_process"],
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
    raise RunError(
        f"CTranslate2 cannot run the export: {why[:300]}", "nothing was written; please report this"
    )


def _engine_outputs(found: Sequence[Sequence[Any]], tokenizer: Tokenizer) -> list[EngineOutput]:
    names = pieces(tokenizer)
    numbers = {name: number for number, name in enumerate(names)}
    outputs = []
    for tokens, score in found:
        ids = [numbers[token] for token in tokens]
        ended = ids[-1:] == [tokenizer.eos_id]
        outputs.append(EngineOutput(ids=ids[:-1] if ended else ids, ended=ended, score=score))
    return outputs


def begins(loaded: LoadedModel) -> bool:
    """True if a text of this decoder-only model begins with <s>."""
    return bool(loaded.generation.get("begin", True))


def _card(loaded: LoadedModel, quantization: Quantization) -> str:
    """How to use the folder, as Markdown. The arguments are the certificate's, not CTranslate2's defaults."""
    files = loaded.tokenizers.files()
    source = "source_tokenizer.json" if "source_tokenizer.json" in files else "tokenizer.json"
    target = "target_tokenizer.json" if "target_tokenizer.json" in files else "tokenizer.json"
    if isinstance(loaded.config, EncoderDecoderConfig):
        engine = "Translator"
        call = TRANSLATION_CALL
        found = "hypotheses"
    else:
        begin = pieces(loaded.tokenizers.target)[loaded.tokenizers.target.bos_id]
        engine, prompt = "Generator", f'["{begin}", *pieces]' if begins(loaded) else "pieces"
        call = CONTINUATION_CALL.format(prompt=prompt)
        found = "sequences"
    return f"""# {loaded.path.resolve().name} for CTranslate2

Written by regard {version("regard")}, weights in {quantization}. `{CERTIFICATE}` has what was compared with
regard's own outputs, and how.

```python
import ctranslate2, tokenizers

engine = ctranslate2.{engine}("THIS FOLDER")
source = tokenizers.Tokenizer.from_file("THIS FOLDER/{source}")
target = tokenizers.Tokenizer.from_file("THIS FOLDER/{target}")
pieces = source.encode("a text", add_special_tokens=False).tokens
[answer] = engine.{call}
print(target.decode([target.token_to_id(piece) for piece in answer.{found}[0]]))
```
"""
