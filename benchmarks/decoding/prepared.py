"""A trained model and the test sentences, prepared for all contenders; the quality of translations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sacrebleu

from benchmarks.common.program import BUILD
from benchmarks.common.unfit import Unfit
from benchmarks.convert.to_ctranslate2 import write_model
from benchmarks.decoding.sentences import Sentences
from benchmarks.work.flops import PairShape
from benchmarks.work.pairs import held_out, shape_of
from regard.data.tokenizer import Tokenizer
from regard.decoding.rules import LengthLimits
from regard.decoding.settings import GenerationSettings
from regard.recipe import read
from regard.verbs.shared.included_models import included_model
from regard.weights.model_folder import LoadedModel, load_model


@dataclass(kw_only=True)
class PreparedWork:
    """The prepared files, and the data that quality is computed with."""

    name: str
    path: Path  # of the sentences
    converted: str  # the folder for CTranslate2; or "!" and why there is none
    shape: PairShape
    references: list[str]
    source: Tokenizer
    tokenizer: Tokenizer  # of the target
    limits: LengthLimits
    checks: list[str] = field(default_factory=list)

    def encoded(self, texts: list[str]) -> dict[str, Any]:
        """What `Sentences` has of these texts; their translations have no known length."""
        ids = self.source.encode_batch(texts)
        limits = [self.limits.longest(len(each)) for each in ids]
        return {"texts": texts, "ids": ids, "lengths": [1] * len(texts), "limits": limits}

    def quality(
        self, said: Mapping[str, list[int]], ours: Mapping[str, list[int]], forced: bool
    ) -> dict[str, Any]:
        """BLEU by `sacrebleu --tokenize none`, and how many translations are equal to regard's.

        There is no BLEU for forced lengths, where it has no meaning.
        """
        texts, our_texts = (
            [self.tokenizer.decode(all_said[place]) for place in said] for all_said in (said, ours)
        )
        same = sum(map(str.__eq__, texts, our_texts)) / len(texts)
        if forced:
            return {"same": same}
        references = [self.references[int(place)] for place in said]
        bleu = sacrebleu.corpus_bleu(texts, [references], tokenize="none", force=True).score
        return {"same": same, "bleu": bleu}


def prepared(model: str | Path | None) -> PreparedWork:
    """The model of a folder, or that in the box, converted; and the test set that fits its corpus."""
    loaded = load_model(model or included_model())
    recipe = (loaded.path / "recipe.toml").read_text("utf-8")
    test = held_out("multi30k_tok" if "multi30k_tok" in recipe else "multi30k")
    tokenizers = loaded.tokenizers
    ids = tokenizers.source.encode_batch(test.sources)
    decoding = read(GenerationSettings, loaded.generation, "generation.json")
    limits = decoding.strategy().limits
    BUILD.mkdir(parents=True, exist_ok=True)
    converted, note = _converted(loaded)
    path = BUILD / "sentences.json"
    Sentences(
        model=str(loaded.path),
        converted=converted,
        texts=test.sources,
        ids=ids,
        vocabulary=_vocabulary(tokenizers.source),
        lengths=[len(each) for each in tokenizers.target.encode_batch(test.references)],
        limits=[limits.longest(len(source)) for source in ids],
        alpha=decoding.alpha if decoding.length_penalty == "power" else 0.0,
    ).write(path)
    checks = [note]
    if decoding.length_penalty == "wu":
        checks.append("the length penalty of this model (Wu et al.) is regard's alone: beams may differ")
    return PreparedWork(
        name=Path(model).parent.name if model else "the model in the box",
        path=path,
        converted=converted,
        shape=shape_of(loaded.config),
        references=test.references,
        source=tokenizers.source,
        tokenizer=tokenizers.target,
        limits=limits,
        checks=checks,
    )


def _converted(loaded: LoadedModel) -> tuple[str, str]:
    """The folder for CTranslate2, or "!" and why there is none; and a sentence for the report."""
    try:
        if not loaded.tokenizers.joint:
            raise Unfit("the two sides have a vocabulary each, which this converter does not know")
        vocabulary = _vocabulary(loaded.tokenizers.source)
        weights = loaded.model.state_dict()
        folder = write_model(loaded.config, weights, vocabulary, BUILD / "ctranslate2-pairs")
    except Unfit as unfit:
        return f"!cannot take these weights: {unfit}", f"CTranslate2 cannot take the weights: {unfit}"
    except ModuleNotFoundError as error:
        return f"!{error.name} is not installed", f"{error.name} is not installed"
    return str(folder), "the others have regard's weights; `same` says how often they agree"


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    pieces = tokenizer.vocabulary()
    return sorted(pieces, key=lambda piece: pieces[piece])
