"""The weight files of a checkpoint are a model; with adapters, others hold what training continues from."""

import torch
from torch import nn

from regard.models.adapters import merged
from regard.models.build import build_model
from regard.models.encoder_only import EncoderOnlyConfig
from regard.training.snapshot import ADAPTERS, WEIGHTS, copies, weight_files
from regard.training.trainable import AdapterSettings, choose_trainable
from regard.weights.tensors import model_tensors


def test_copies_change_no_more_with_the_model():
    model = nn.Linear(2, 2)
    held = copies(model_tensors(model))
    before = {name: tensor.clone() for name, tensor in held.items()}
    nn.init.constant_(model.weight, 7.0)
    assert torch.equal(held["weight"], before["weight"])
    assert not held["weight"].requires_grad
    assert copies(held, "meta")["weight"].device.type == "meta"


def test_a_model_without_adapters_has_one_file_of_weights():
    model = nn.Linear(2, 2)
    assert list(weight_files(model)) == [WEIGHTS]


def test_with_adapters_the_weights_are_merged_and_what_differs_is_kept_apart():
    config = EncoderOnlyConfig(vocab_size=20, head="none", d_model=8, num_heads=2, d_ff=16, num_layers=1)
    model = build_model(config, seed=0)
    choose_trainable(model, adapter=AdapterSettings(rank=2), seed=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".adapter." in name:
                parameter.fill_(0.5)
    own = copies(model_tensors(model))
    files = weight_files(model)
    assert sorted(files) == sorted((WEIGHTS, ADAPTERS))
    with merged(model):
        plain = model_tensors(model)
        assert plain.keys() == files[WEIGHTS].keys()
        assert all(torch.equal(tensor, plain[name]) for name, tensor in files[WEIGHTS].items())
    together = {**files[WEIGHTS], **files[ADAPTERS]}
    assert together.keys() == own.keys()
    assert all(torch.equal(together[name], tensor) for name, tensor in own.items())
    for name in files[WEIGHTS].keys() & files[ADAPTERS].keys():
        assert not torch.equal(files[WEIGHTS][name], files[ADAPTERS][name]), "what is the same is stored once"
