"""PyTorch's setting of matrix products of a run: chosen once, so that a resumed run has the same bits."""

import json

import torch

from regard.distributed.group import Group
from regard.training.products import MatmulPrecision, choose_precision, is_exact, refuse_bfloat16_products
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Say
from regard.weights.checkpoint import RunFolder
from regard.weights.strict_json import read_json

PRODUCTS = "products.json"  # file of a run folder: the setting


def product_precision(
    source: RecipeFile, run: RunFolder, d_model: int, device: torch.device, group: Group, say: Say
) -> MatmulPrecision:
    """The setting of the run, which the first process chooses if the run has none yet."""
    path = run.path / PRODUCTS
    if group.is_first and not path.is_file():
        products = "float32" if run.latest() else source.recipe.training.products  # begun by an older version
        chosen = choose_precision(products, d_model, device)
        run.write_text(PRODUCTS, json.dumps({"float32_matmul_precision": chosen}) + "\n")
    group.barrier()
    setting: MatmulPrecision = read_json(path)["float32_matmul_precision"]
    if setting == "bfloat16":
        refuse_bfloat16_products(device)
        say("matrix products: bfloat16 factors, float32 weights and sums, as the recipe asks")
        return setting
    if device.type != "cpu":
        return "highest"
    if setting == "medium" and not is_exact(setting, d_model):
        say("matrix products: PyTorch's default, since oneDNN is not exact here; results will differ in bits")
        return "highest"
    if setting == "medium":
        say("matrix products: oneDNN in float32, faster here than PyTorch's default")
    return setting
