"""What a recipe asks for, built: the model's configuration, the objective, the loader."""

import dataclasses

from regard.data.loader import Loader
from regard.distributed.group import SINGLE, Group
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


def training_loader(source: RecipeFile, prepared: Prepared, group: Group = SINGLE) -> Loader:
    """This process's share of the training batches; a batch's token budget is that of all together."""
    recipe = source.recipe
    batches = dataclasses.replace(recipe.batches, batch_tokens=recipe.batches.batch_tokens // group.size)
    return Loader(
        prepared.shards,
        batches,
        seed=recipe.training.seed,
        pad_id=prepared.tokenizers.target.pad_id,
        rank=group.rank,
        world_size=group.size,
    )
