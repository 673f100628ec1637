"""What Argos Translate makes of texts, compared with regard: pieces, outputs as pieces, translations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import GeneratedTokens
from regard.errors import DataError
from regard.exports.certificate import BOUNDS, TIE, Quantization
from regard.exports.certified_export import MOST_READ, in_own_process
from regard.exports.certified_sequences import made_texts
from regard.exports.ctranslate2_calls import ARGOS_ALPHA as ALPHA
from regard.exports.ctranslate2_calls import ARGOS_BEAM as BEAM
from regard.exports.ctranslate2_calls import ARGOS_LONGEST as LONGEST
from regard.exports.ctranslate2_folder import pieces
from regard.exports.plain_reference import TranslationReference
from regard.exports.sentencepiece_file import engine_pieces
from regard.weights.model_folder import LoadedModel

EQUAL_PIECES = 0.95  # the least share of texts with equal pieces; see `sentencepiece_normalizer.py`
PROCESS = "regard.exports.argos_process"


@dataclass(frozen=True, kw_only=True)
class LengthWithoutEnd:
    """Argos Translate's divisor of a log-probability: the tokens before the end, to the power 0.2."""

    def __call__(self, length: int) -> float:
        return float(max(1, length - 1) ** ALPHA)


@dataclass(frozen=True, kw_only=True)
class NotEmpty:
    """Forbids the end as the first token, and scores the others as if it were none."""

    changes_scores: ClassVar[bool] = True
    eos_id: int

    @property
    def raises(self) -> bool:
        return True

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        if generated.length == 0:
            log_probs[:, self.eos_id] = -torch.inf
            log_probs -= log_probs.logsumexp(dim=-1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class PackageComparison:
    """What was compared; shares are of the texts that were read whole."""

    texts: int
    pieces: float  # the share of texts with equal pieces
    outputs_equal: float  # of the outputs by its beam and its length penalty
    outputs_tied: float
    translations: (
        float | None
    )  # the share of translations that are the text of the output; None: not installed
    unknown: int  # outputs with an unknown token, for which Argos Translate writes a piece of the source
    usual: float | None  # the share of translations that stay the same with weights as it loads them
    least_outputs: float  # bound
    versions: Mapping[str, str]

    @property
    def failures(self) -> list[str]:
        """A line for each bound that does not hold."""
        found = (
            ("share of texts with equal pieces", self.pieces, EQUAL_PIECES),
            (
                "share of equal outputs by its search",
                self.outputs_equal + self.outputs_tied,
                self.least_outputs,
            ),
            ("share of equal translations", 1.0 if self.translations is None else self.translations, 1.0),
        )
        return [
            f"{name}: {share:.4g}, at least {least:g}" for name, share, least in found if not share >= least
        ]

    def to_dict(self) -> dict[str, Any]:
        """The part of CERTIFICATE.json."""
        judged = "argostranslate" if self.translations is not None else "sentencepiece and ctranslate2"
        return {
            "judged_by": judged,
            "texts": self.texts,
            "pieces": {"equal": self.pieces, "bound": EQUAL_PIECES},
            "outputs": {
                "beam": BEAM, "alpha": ALPHA, "equal": self.outputs_equal, "tied": self.outputs_tied,
                "bound": self.least_outputs,
            },
            "translations": {
                "equal": self.translations, "with_unknown": self.unknown, "with_usual_weights": self.usual,
            },
        }  # fmt: skip


def compare_packages(
    package: Path,
    loaded: LoadedModel,
    texts: Sequence[str] | None,
    quantization: Quantization,
    *,
    numbers: Mapping[str, int],
    codes: tuple[str, str],
) -> PackageComparison:
    """Compare what a package, beside whose file its content is, computes with regard.

    `numbers` has the id of each piece of a source.
    """
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    given = made_texts(source) if texts is None else texts
    sources = {text: ids for text in given if 0 < len(ids := source.encode(text)) <= MOST_READ}
    if not sources:
        raise DataError(f"there is no text of at most {MOST_READ} tokens", "give a file with some lines")
    job = {
        "package": str(package), "folder": str(package.parent), "texts": [*sources], "from": codes[0],
        "to": codes[1], "threads": torch.get_num_threads(),
    }  # fmt: skip
    answer = in_own_process(PROCESS, "Argos Translate", job)
    reference = TranslationReference(loaded.model, loaded.tokenizers)
    theirs = [[numbers.get(piece, source.unk_id) for piece in each] for each in answer["pieces"]]
    ours = reference.outputs(
        [*sources.values()],
        BEAM,
        LONGEST,
        length_penalty=LengthWithoutEnd(),
        rules=(NotEmpty(eos_id=target.eos_id),),
    )
    ids = {name: number for number, name in enumerate(engine_pieces(target, pieces(target)))}
    outputs = [[ids[piece] for piece in each] for each in answer["outputs"]]
    equal = [own.ids == other for own, other in zip(ours, outputs, strict=True)]
    tied = [
        not same and _tied(reference, given, own, other)
        for given, own, other, same in zip(sources.values(), ours, outputs, equal, strict=True)
    ]
    known = [target.unk_id not in output for output in outputs]
    expected = [_text(target, output) for output in outputs]
    return PackageComparison(
        texts=len(sources),
        pieces=_share(own == other for own, other in zip(sources.values(), theirs, strict=True)),
        outputs_equal=_share(equal),
        outputs_tied=_share(tied),
        translations=_equal_texts(answer.get("texts"), expected, known),
        unknown=known.count(False),
        usual=_equal_texts(answer.get("usual_texts"), answer.get("texts"), [True] * len(known)),
        least_outputs=BOUNDS[quantization].equal_beam,
        versions=answer["versions"],
    )


def _text(target: Tokenizer, output: list[int]) -> str:
    """The text of an output, as Argos Translate changes it."""
    return target.decode(output).replace("▁", " ").replace("_", " ").removeprefix(" ")


def _tied(reference: TranslationReference, source: list[int], own: Hypothesis, other: list[int]) -> bool:
    scores = [
        reference.score(source, ids, ended=len(ids) < LONGEST, length_penalty=LengthWithoutEnd())
        for ids in (own.ids, other)
    ]
    return abs(scores[0] - scores[1]) <= TIE


def _equal_texts(
    found: Sequence[str] | None, expected: Sequence[str] | None, compared: Sequence[bool]
) -> float | None:
    if found is None or expected is None:
        return None
    pairs = zip(found, expected, compared, strict=True)
    return _share(one == other for one, other, is_compared in pairs if is_compared)


def _share(flags: Any) -> float:
    found = [*flags]
    return sum(found) / len(found) if found else 1.0
