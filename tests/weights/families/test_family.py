import dataclasses

import pytest

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.families.family import (
    OTHER_HEADS,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
    canonical,
    ends_of,
    nearest_settings,
    refuse_misfit,
    widths,
)
from regard.weights.families.gpt2 import GPT2
from regard.weights.pretrained import FAMILIES
from tests.weights.families.conversion import converted, refused

HINT = "use the config.json of the weights"
CONFIG = DecoderOnlyConfig(vocab_size=9, d_model=4, num_heads=2, num_layers=1, d_ff=5)


def reader(**table: object) -> ConfigReader:
    return ConfigReader(table, "it")


def refusal(call, message: str, hint: str = "") -> None:
    with pytest.raises(FolderError, match=f"^it: {message}") as caught:
        call()
    assert hint in caught.value.hint


def test_the_first_name_that_is_set_counts():
    settings = reader(a=None, b=2, c=3)
    assert settings.take(int, "a", "b", "c") == 2
    assert settings.take(int, "a", default=7) == 7
    assert settings.optional(int, "a") is None
    refusal(lambda: settings.take(int, "a", "z"), "'a' is missing", HINT)
    settings.finish()  # all of its names were read


def test_a_value_has_exactly_its_type_but_an_integer_is_a_float_too():
    assert type(reader(a=3).take(float, "a")) is float
    assert reader(a=0).take(int, "a", default=5) == 0
    assert reader(a=False).take(bool, "a", default=True) is False
    for kind, value in ((int, 1.0), (int, True), (bool, 1), (str, 1), (float, "1"), (float, True)):
        refusal(lambda kind=kind, value=value: reader(a=value).take(kind, "a"), f"a = {value!r} is not of")


@pytest.mark.parametrize("kind", [int, float])
def test_an_integer_has_64_bits(kind):
    for value in (2**63 - 1, -(2**63)):
        assert reader(a=value).take(kind, "a") == kind(value)
    for value in (2**63, -(2**63) - 1):
        refusal(lambda value=value: reader(a=value).take(kind, "a"), "a is an integer of 64 bits", HINT)


def test_a_word_is_one_of_those_that_are_known():
    known = {"silu": "swiglu", "gelu": "geglu"}
    assert reader(a="gelu").choice(known, "a") == "geglu"
    assert reader().choice(known, "a", default="silu") == "swiglu"
    refusal(lambda: reader(a="gelu2").choice(known, "a"), "a = 'gelu2' is not supported", "'gelu'")
    refusal(lambda: reader().choice(known, "a"), "'a' is missing")


def test_a_setting_that_must_have_a_value_may_be_null_or_absent():
    for table in ({}, {"a": None}, {"a": 1}, {"a": 2}):
        settings = reader(**table)
        settings.must_be("a", 1, 2)
        settings.finish()
    refusal(lambda: reader(a=3).must_be("a", 1, 2), "a = 3 is not supported", "only 1 is")


def test_a_setting_that_nobody_read_is_refused():
    settings = reader(b=1, a=2, c=3, top_p=0.5)
    settings.unused("b", "c")
    refusal(settings.finish, "the setting 'a' is unknown to regard", "remove it from config.json")
    settings.unused("a")
    settings.finish()


def test_a_special_token_is_an_id_of_the_vocabulary_the_first_of_several():
    for value, found in ((0, 0), (8, 8), ([3, 4], 3), (None, None), (-1, None), ([-1], None)):
        assert reader(a=value).token("a", 9) == found
    assert reader().token("a", 9) is None
    for value in (9, -2, "3", 3.0, True, [], ["3"]):
        refusal(lambda value=value: reader(a=value).token("a", 9), "a = .* is not a token id", "vocab_size")


def test_the_architecture_is_the_first_of_its_list():
    for value, found in ((["A", "B"], "A"), ([], ""), (None, "")):
        assert reader(architectures=value).architecture() == found
    assert reader().architecture() == ""
    for value in ("A", [1], {}, 3):
        refusal(reader(architectures=value).architecture, "architectures is not a list of names", HINT)


def test_classes_have_names_or_a_number_of_them():
    assert reader().labels() == ("LABEL_0", "LABEL_1")
    assert reader(num_labels=1).labels() == ("LABEL_0",)
    assert reader(id2label={"1": "b", "0": "a"}, num_labels=7).labels() == ("a", "b")
    assert len(reader(num_labels=10**6 - 1).labels()) == 10**6 - 1
    for count in (0, -1, 10**6, 2.0, True, "2"):
        refusal(reader(num_labels=count).labels, "num_labels = .* is not a count", "give id2label")
    for names in ([], "ab", {"0": 1}, {"0": "a", "1": None}):
        refusal(reader(id2label=names).labels, "id2label is not an object of names", "0 to classes - 1")
    for names in ({"1": "a"}, {"0": "a", "2": "b"}, {"0": "a", "x": "b"}):
        refusal(reader(id2label=names).labels, "the keys of id2label have gaps", "0 to classes - 1")


def test_all_ends_of_a_text_are_ids():
    for value, found in ((None, []), (-1, []), (3, [3]), (0, [0]), ([3, 8], [3, 8]), ([], [])):
        assert ends_of({"eos_token_id": value}, "it", 9) == found
    assert ends_of({}, "it", 9) == []
    for value in (9, -2, "3", [3, 9], [-1], [True]):
        refusal(
            lambda value=value: ends_of({"eos_token_id": value}, "it", 9), "eos_token_id = .* is not a token"
        )


def test_an_activation_without_a_name_gets_another_one_which_does_not_survive():
    assert [activation_name(ours) for ours in ("gelu", "gelu_tanh", "geglu")] == ["gelu", "gelu_new", "gelu"]
    assert activation_name("geglu", otherwise="gelu_new") == "gelu_new"


def test_widths_are_those_of_heads():
    config = dataclasses.replace(CONFIG, num_kv_heads=1, head_dim=3)
    assert widths(config) == (6, 3, 3)
    assert widths(dataclasses.replace(config, num_kv_heads=None)) == (6, 6, 6)


SAME = {  # two ways to write one model
    "the number of key heads": ({}, {"num_kv_heads": 2}),
    "the width of heads": ({}, {"head_dim": 2}),
    "biases": ({}, {"attention_bias": "all", "feed_forward_bias": True}),
    "windows of one type": (
        {"positions": "rotary", "window": 3},
        {"positions": "rotary", "window": 3, "layer_types": ("sliding_attention",)},
    ),
    "one base of layers with windows": (
        {"positions": "rotary", "window": 3, "rotary_base": 5.0},
        {"positions": "rotary", "window": 3, "rotary_base": 9.0, "local_rotary_base": 5.0},
    ),
    "the factor of scores": ({"head_dim": 4}, {"head_dim": 4, "attention_scale": 0.5}),
    "epsilon of a layer norm": ({}, {"norm_eps": 1e-5}),
    "epsilon of an rms norm": ({"norm": "rms"}, {"norm": "rms", "norm_eps": 1e-6}),
    "dropout": ({}, {"dropout": 0.5, "attention_dropout": 0.25, "activation_dropout": 0.5}),
    "the length of training": ({}, {"trained_length": 7}),
    "learned": ({}, {"position_layout": "split", "position_buckets": 8, "rotary_base": 3.0}),
    "sinusoidal": (
        {"positions": "sinusoidal"},
        {"positions": "sinusoidal", "max_positions": 7, "position_offset": 2, "position_distance": 99},
    ),
    "rotary": (
        {"positions": "rotary"},
        {"positions": "rotary", "max_positions": 7, "position_offset": 2, "position_layout": "split"},
    ),
    "all features are rotated": ({"positions": "rotary"}, {"positions": "rotary", "rotary_dim": 2}),
    "t5": (
        {"positions": "t5"},
        {"positions": "t5", "max_positions": 7, "position_offset": 2, "rotary_base": 3.0},
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_settings_that_give_the_same_model_have_one_form(name):
    one, other = (canonical(dataclasses.replace(CONFIG, **changes)) for changes in SAME[name])
    assert one == other


@pytest.mark.parametrize(
    "changes",
    [
        {"num_kv_heads": 1},
        {"head_dim": 3},
        {"attention_scale": 1.0},
        {"norm_eps": 1e-6},
        {"norm": "rms", "norm_eps": 1e-5},
        {"max_positions": 7},
        {"feed_forward_bias": False},
        {"positions": "rotary", "rotary_base": 3.0},
        {"num_layers": 2, "window": 3, "layer_types": ("sliding_attention", "full_attention")},
        {"positions": "t5", "position_buckets": 8},
        {"positions": "sinusoidal", "position_layout": "split"},
    ],
    ids=str,
)
def test_settings_that_change_the_model_are_kept(changes):
    kept = {name: value for name, value in changes.items() if name in ("norm", "positions")}
    assert canonical(dataclasses.replace(CONFIG, **changes)) != canonical(dataclasses.replace(CONFIG, **kept))


def test_layers_of_two_types_are_another_model_in_another_order():
    config = dataclasses.replace(CONFIG, positions="rotary", num_layers=2, window=3)
    kinds = ("sliding_attention", "full_attention")
    one, other = (canonical(dataclasses.replace(config, layer_types=each)) for each in (kinds, kinds[::-1]))
    assert one != other


def test_embeddings_as_wide_as_the_model_are_the_usual_ones():
    config = EncoderOnlyConfig(vocab_size=9, head="none", d_model=8, num_heads=2)
    same, narrow = (canonical(dataclasses.replace(config, embedding_size=size)) for size in (8, 4))
    assert same == canonical(config) != narrow


def test_only_some_heads_of_an_encoder_may_have_a_norm_or_none():
    for head in ("none", "masked_language_model", "replaced_tokens", "tokens"):
        sizes = {"vocab_size": 9, "head": head, "num_labels": 3 if head == "tokens" else 0}
        with_norm, without = (canonical(EncoderOnlyConfig(head_norm=norm, **sizes)) for norm in (True, False))
        assert (with_norm == without) is (head != "tokens")
        assert without["head_norm"] is False


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "phi", "llama", "gemma2", "t5", "marian"])
def test_a_class_with_another_head_is_refused_by_each_family_that_only_generates(family):
    for head in OTHER_HEADS:
        refused(family, {"architectures": [f"A{head}"]}, f"the head of class A{head} is not supported")


@pytest.mark.parametrize("head", OTHER_HEADS)
def test_a_model_with_another_head_is_refused_with_the_class_that_would_do(head):
    named = {"architectures": [f"Llama{head}"]}
    refusal(
        lambda: reader(**named).refuse_other_heads("AForCausalLM", "BModel"),
        f"the head of class Llama{head} is not supported",
        "use AForCausalLM or BModel",
    )
    reader(**named).refuse_other_heads("AForCausalLM", others=("EncoderModel",))
    for usable in (["AForCausalLM"], [f"{head}Other"], []):
        reader(architectures=usable).refuse_other_heads("AForCausalLM")


@pytest.mark.parametrize(
    ("head", "usual", "other"),
    [("masked_language_model", "gelu", "relu"), ("none", "tanh", "gelu")],
)
def test_the_usual_activation_of_a_head(head, usual, other):
    config = EncoderOnlyConfig(vocab_size=9, head=head)
    assert canonical(config)["head_activation"] == usual
    assert canonical(dataclasses.replace(config, head_activation=other))["head_activation"] == other


def test_a_model_that_would_come_back_as_another_is_refused():
    refuse_misfit(FAMILIES["gpt2"], CONFIG, ())
    for changes, message in (
        ({"qk_norm": True}, "qk_norm = True, but a gpt2 model has False"),
        ({"positions": "rotary"}, "positions = 'rotary', but a gpt2 model has 'learned'"),
        ({"activation": "geglu"}, "activation = 'geglu', but a gpt2 model has 'gelu_tanh'"),
        ({"tied": False}, "tied = False, but a gpt2 model has True"),
    ):
        with pytest.raises(FolderError, match=message) as caught:
            refuse_misfit(FAMILIES["gpt2"], dataclasses.replace(CONFIG, **changes), ())
        assert "only architectures that transformers has" in caught.value.hint


def test_a_family_of_another_kind_of_model_is_refused():
    class Encoder(GPT2):
        name = "mine"

        def read(self, settings, names):
            del settings, names
            return ConvertedConfig(config=EncoderOnlyConfig(vocab_size=9, head="none"))

    with pytest.raises(FolderError, match="a decoder_only model is not a mine model"):
        refuse_misfit(Encoder(), CONFIG, ())


def test_a_family_whose_nearest_model_does_not_survive_is_not_near():
    class Odd(GPT2):
        def read(self, settings, names):
            found = super().read(settings, names)
            deeper = dataclasses.replace(found.config, num_layers=found.config.num_layers + 1)
            return dataclasses.replace(found, config=deeper)

    assert nearest_settings(GPT2(), CONFIG) is not None
    assert nearest_settings(Odd(), CONFIG) is None


def test_what_a_family_does_unless_it_says_otherwise():
    class Plain(Family):
        def read(self, settings, names):
            raise NotImplementedError

        def write(self, config, labels):
            raise NotImplementedError

        def table(self, config):
            return []

    family = Plain()
    ids = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "first_token_id": 4}
    assert family.special_token_ids(CONFIG, ids) == {name: ids[name] for name in list(ids)[:3]}
    assert family.other_files(CONFIG) == {}
    assert family.writes_fixed_tensors is False
    assert family.in_family_form(CONFIG, {}) == (CONFIG, {})


@pytest.mark.parametrize(("family", "start", "end"), [("phi", 1, 2), ("gpt_neox", 0, 2)])
def test_ids_of_a_language_model_that_a_file_leaves_out(family, start, end):
    found = converted(family, {"vocab_size": 9})
    assert (found.start_id, found.pad_id, found.eos_id) == (start, None, end)
    assert found.generation == {"begin": False, "may_end": True}
    given = {"bos_token_id": 5, "pad_token_id": 6, "eos_token_id": 7}
    found = converted(family, {"vocab_size": 9, **given})
    assert (found.start_id, found.pad_id, found.eos_id) == (5, 6, 7)
    found = converted(family, {"vocab_size": 9, **dict.fromkeys(given)})
    assert (found.start_id, found.pad_id, found.eos_id) == (None, None, None)
