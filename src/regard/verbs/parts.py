"""What a recipe asks for, built: the model's configuration, the objective, the loader."""

from regard.data.loader import Loader
from regard.models.config import ModelConfig, config_from
from regard.training.objective import Objective, build_objective
from regard.verbs.prepare import Prepared
from regard.verbs.settings import RecipeFile


def model_config(source: RecipeFile, prepared: Prepared) -> ModelConfig:
    tokenizers = prepared.tokenizers
    return config_from(
        source.recipe.model,
        src_vocab_size=tokenizers.source.vocab_size,
        tgt_vocab_size=tokenizers.target.vocab_size,
    )


def objective(source: RecipeFile, prepared: Prepared) -> Objective:
    training = source.recipe.training
    return build_objective(
        label_smoothing=training.label_smoothing,
        r_drop=training.r_drop,
        pad_id=prepared.tokenizers.target.pad_id,
    )


def training_loader(source: RecipeFile, prepared: Prepared) -> Loader:
    recipe = source.recipe
    return Loader(
        prepared.shards, recipe.batches, seed=recipe.training.seed, pad_id=prepared.tokenizers.target.pad_id
    )
