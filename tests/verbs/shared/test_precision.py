"""int8 is close to float32 for all models and in any batch; a warning if it is no faster."""

import pytest
import torch
from torch import nn

from regard.errors import RecipeError
from regard.fast.native import kernels
from regard.verbs.generate import Generator, generate, generate_file
from regard.verbs.shared.precision import compute_in
from regard.verbs.translate import Translator

PROMPTS = [
    "To be",
    "or not to be, that is the question",
    "a",
    "that is the question",
    "whether 'tis nobler or",
]


@pytest.fixture
def any_size(monkeypatch):
    """Maps of any size are rounded."""
    monkeypatch.setattr("regard.fast.int8.MIN_WEIGHTS", 0)


@pytest.fixture
def writer(decoder_folder):
    return decoder_folder("characters")


def test_a_translation_is_as_likely_but_for_a_little(untrained, any_size):
    exact, near = (
        next(Translator(untrained, precision=precision)(["1 2 3"])).candidates[0].log_prob
        for precision in ("float32", "int8")
    )
    assert near != exact
    assert near == pytest.approx(exact, rel=0.05)


def test_a_text_is_what_it_is_without_kernels(writer, any_size, monkeypatch):
    settings = {"max_new_tokens": 5, "temperature": 0.0}
    exact = Generator(writer, **settings).one("To be").continuations[0]
    generator = Generator(writer, precision="int8", **settings)
    fast = generator.one("To be").continuations[0]
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain = generator.one("To be").continuations[0]
    assert fast.text == plain.text
    assert fast.log_prob == pytest.approx(plain.log_prob, rel=1e-3)
    assert fast.log_prob != exact.log_prob


def test_scores_that_are_not_float32_s_say_so(untrained, writer, any_size):
    """JSON names the precision if log-probabilities differ from those of `regard score`."""
    for kind, model in ((Translator, untrained), (Generator, writer)):
        for precision, reported in (("float32", {}), ("int8", {"precision": "int8"})):
            made = kind(model, precision=precision)
            for found in made(["1 2 3"]):
                table = found.to_dict()
                assert {name: table[name] for name in table if name == "precision"} == reported
    split = next(Translator(untrained, precision="int8").texts(["1 2. 3 4."])).to_dict()
    assert split["precision"] == "int8"


def test_where_it_stays_float32_scores_are_float32_s(untrained, monkeypatch):
    monkeypatch.setattr(kernels, "has_int8", lambda: False)
    assert "precision" not in next(Translator(untrained, precision="int8")(["1 2 3"])).to_dict()


def linears_of(model):
    return {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}


@pytest.mark.parametrize(("has_int8", "left"), [(True, "none"), (False, "all but the output")])
def test_layers_that_the_plan_cannot_multiply_in_int8_stay_float32(
    untrained, any_size, monkeypatch, has_int8, left
):
    """Else the whole step would be a plain one: 26 ms a step of a base model, not 9 (docs/log.md)."""
    if not kernels.available():
        pytest.skip("no C compiler")
    monkeypatch.setattr(kernels, "has_int8", lambda: has_int8)
    before = linears_of(Translator(untrained).model)
    after = linears_of(Translator(untrained, precision="int8").model)
    assert after == {"none": set(), "all but the output": before - {"output"}}[left]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_neighbours_change_no_text(writer, any_size, temperature):
    generator = Generator(writer, precision="int8", max_new_tokens=12, temperature=temperature)
    together = [each.texts for each in generator(PROMPTS)]
    assert [next(generator([prompt])).texts for prompt in PROMPTS] == together


def test_a_warning_if_it_is_no_faster(untrained, writer, capsys, monkeypatch):
    monkeypatch.setattr(kernels, "has_int8", lambda: False)
    for kind, model in ((Translator, untrained), (Generator, writer)):
        made = kind(model, precision="int8")
        assert not any("Int8" in type(module).__name__ for module in made.model.modules())
        assert "stays float32" in capsys.readouterr().err


def test_it_is_for_a_cpu():
    with pytest.raises(RecipeError, match="int8 needs a CPU"):
        compute_in("int8", nn.Linear(2, 2), torch.device("cuda"))


def test_calls_and_files_take_it_too(writer, any_size, tmp_path):
    expected = [each.texts[0] for each in Generator(writer, precision="int8")(PROMPTS)]
    assert generate(PROMPTS, model=writer, precision="int8") == expected
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS))
    assert generate_file(tmp_path / "prompts.txt", model=writer, precision="int8") == expected


def test_bfloat16_is_for_gpus(untrained, writer):
    for make in (lambda: Translator(untrained, precision="bfloat16", device="cpu"),
                 lambda: Generator(writer, precision="bfloat16", device="cpu")):  # fmt: skip
        with pytest.raises(RecipeError, match="bfloat16 needs a GPU"):
            make()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_bfloat16_on_a_gpu_gives_nearly_the_same_scores_and_is_named(untrained):
    found = [next(Translator(untrained, precision=each)(["1 2 3"])) for each in ("float32", "bfloat16")]
    scores = [each.candidates[0].log_prob for each in found]
    assert scores[0] == pytest.approx(scores[1], rel=0.1)
    assert found[1].to_dict()["precision"] == "bfloat16"
