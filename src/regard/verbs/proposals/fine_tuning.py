"""Settings that `regard new --init` proposes to fine-tune a translation model in a given time.

Learning rate and epochs come from the runs in docs/recipes-by-size.md ("Fine-tuning").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpus import Pair
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.decoding.settings import GenerationSettings
from regard.errors import FolderError
from regard.models.build import count_parameters
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.generation.translation_direction import direction_warning
from regard.verbs.proposals.budget import Budget
from regard.verbs.proposals.plan import SIZES
from regard.verbs.proposals.run_plan import MAX_TOKENS, RunPlan, RunSettings, fitted_to_time
from regard.verbs.proposals.training_speed import measure_speed, timed_pairs
from regard.verbs.shared.model_loading import model_path
from regard.weights.model_folder import LoadedModel, load_model

KINDS = ("encoder_decoder", "recurrent")  # of models that a translation trains
RATE_SHARE = 0.5  # of the rate that trains a model of this width from nothing
EPOCHS = 10
MAX_BATCH_TOKENS = 2048
UNKNOWN_SHARE = 0.001  # of the tokens of a side; with more the vocabulary is extended
NEW_TOKENS = 1000  # at most
FROM_DATA = frozenset({"split_above", "tags"})  # decoding defaults that the run takes from its data


@dataclass(frozen=True, kw_only=True)
class FineTuning(RunPlan):
    """The run that continues from a trained model.

    `init`: how the recipe names the model. `kind`: "encoder_decoder" or "recurrent". `decoding`: the model's
    decoding settings that differ from the defaults. `new_tokens`: by how many its vocabulary is extended at
    most.
    """

    init: str
    kind: str
    run: RunSettings
    parameter_count: int
    decoding: dict[str, Any]
    new_tokens: int = 0

    @property
    def settings(self) -> RunSettings:
        return self.run

    @property
    def parameters(self) -> int:
        return self.parameter_count


@dataclass(frozen=True, kw_only=True)
class StartingModel:
    """A trained translation model, and what the user called it: a path, or the name of an included model."""

    name: str
    loaded: LoadedModel

    @property
    def is_included(self) -> bool:
        """True if `name` is not a path."""
        return not Path(self.name).expanduser().exists()

    @classmethod
    def of(cls, init: str | Path) -> "StartingModel":
        """The model that `init` names.

        Raises:
            FolderError: there is none, or it does not translate.
        """
        loaded = load_model(model_path(init))
        if loaded.config.kind not in KINDS:
            raise FolderError(
                f"{loaded.path} is a model of kind {loaded.config.kind!r}, which translates nothing",
                "name a translation model with --init, or leave it out to train a new model",
            )
        return cls(name=str(init), loaded=loaded)


def propose_fine_tuning(
    loaded: LoadedModel, init: str, sample: Sequence[Pair], *, pairs: int, budget: Budget
) -> FineTuning:
    """The run that fine-tunes `loaded`; measures the speed of this machine for some seconds.

    Args:
        init: how the recipe names the model.
        sample: some pairs of the training data.
        pairs: the number of all training pairs.
    """
    tokenizers, timed, config = loaded.tokenizers, timed_pairs(sample), loaded.config.to_dict()
    unknown = _unknown_shares(timed, tokenizers)
    extends = all(each.trained_by_regard for each in (tokenizers.source, tokenizers.target))
    draft = FineTuning(
        init=init,
        kind=loaded.config.kind,
        run=run_settings(config["d_model"]),
        parameter_count=count_parameters(loaded.model),
        max_tokens=_max_tokens(config),
        decoding=_decoding(loaded),
        new_tokens=NEW_TOKENS if unknown and extends else 0,
        warnings=(
            *filter(None, [direction_warning(loaded, init, timed)]),
            *_unknown_tokens(unknown, extends),
        ),
    )
    speed = measure_speed(
        loaded.model, tokenizers, draft.run.batch_tokens, timed, budget.device, budget.cores
    )
    return fitted_to_time(draft, speed, pairs, budget.minutes)


def run_settings(d_model: int) -> RunSettings:
    """The training settings for a trained model of this width."""
    size = next((size for size in SIZES if size.d_model >= d_model), SIZES[-1])
    rate = size.learning_rate * RATE_SHARE * min(1.0, size.d_model / d_model)
    return RunSettings(
        batch_tokens=min(size.batch_tokens, MAX_BATCH_TOKENS),
        learning_rate=float(f"{rate:.1e}"),
        warmup=size.warmup,
        epochs=EPOCHS,
    )


def _max_tokens(config: Mapping[str, Any]) -> int:
    """`MAX_TOKENS`, or fewer in a model that has learned fewer positions."""
    return min(MAX_TOKENS, config["max_positions"]) if config.get("positions") == "learned" else MAX_TOKENS


def _decoding(loaded: LoadedModel) -> dict[str, Any]:
    """The model's decoding settings that differ from the defaults and do not come from the data."""
    usual = GenerationSettings().to_dict()
    own = decoding_defaults(GenerationSettings, loaded).to_dict()
    return {name: value for name, value in own.items() if value != usual.get(name) and name not in FROM_DATA}


def _unknown_shares(pairs: Sequence[Pair], tokenizers: TokenizerPair) -> dict[str, float]:
    """The share of unknown tokens of each side that has more than `UNKNOWN_SHARE`."""
    sides = {
        "source": (tokenizers.source, [pair.source for pair in pairs]),
        "target": (tokenizers.target, [pair.target for pair in pairs]),
    }
    shares = {side: _unknown_share(*given) for side, given in sides.items()}
    return {side: share for side, share in shares.items() if share > UNKNOWN_SHARE}


def _unknown_tokens(shares: Mapping[str, float], extends: bool) -> list[str]:
    """A warning for each of these sides."""
    then = "the recipe adds tokens for them" if extends else "it cannot learn them"
    return [
        f"{share:.1%} of the {side}'s tokens are unknown to the model's tokeniser: {then}"
        for side, share in shares.items()
    ]


def _unknown_share(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    ids = [id for text in tokenizer.encode_batch(texts) for id in text]
    return ids.count(tokenizer.unk_id) / max(len(ids), 1)
