import hashlib
import json
import random

import jaxtyping
import pytest
import torch

from regard.data.corpus import Pair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.decoding.settings import GenerationSettings
from regard.errors import FolderError, UserError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import write_folder
from regard.weights.model_folder import load_model, model_files, model_files_of, read_config
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import half, model_tensors
from regard.weights.verified_folder import VerifiedFolder

PAIRS = [
    Pair(source="ein Haus am See", target="a house by the lake", line=1),
    Pair(source="zwei Häuser am Meer", target="two houses by the sea", line=2),
]
JOINT = train_tokenizers(PAIRS, TokenizerSettings(kind="bpe", vocab_size=60))
GENERATION = json_bytes(GenerationSettings().to_dict())
APART = train_tokenizers(PAIRS, TokenizerSettings(kind="characters", joint=False))
SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 2}


def config_of(tokenizers=JOINT, **settings):
    sizes = {
        "src_vocab_size": tokenizers.source.vocab_size,
        "tgt_vocab_size": tokenizers.target.vocab_size,
    }
    return EncoderDecoderConfig(**{**sizes, **SMALL, **settings})


def files_of(config, tokenizers=JOINT, *, seed=1, store=dict):
    model = build_model(config, seed=seed).eval()
    files = model_files(config, (), {**tokenizers.files(), "generation.json": GENERATION}, "# ü\n")
    return model, {"model.safetensors": store(model_tensors(model)), **files}


@pytest.fixture
def as_users_run_it():
    """Without jaxtyping's checks, which only tests have and which would fail before regard's own."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def logits(model):
    ids = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]])
    with torch.no_grad():
        return model(ids, torch.tensor([4, 2]), torch.tensor([[2, 5, 6], [2, 4, 0]]))


@pytest.mark.parametrize("positions", ["alibi", "rotary"])
def test_alibi_of_an_older_folder_stays_as_it_was_trained(encoder_folder, tmp_path, positions):
    """In older versions ALiBi was symmetric, and config.json had no setting for it."""
    symmetric = encoder_folder("classification", ("a", "b"), positions=positions, alibi="symmetric")
    folder = VerifiedFolder.open(symmetric)
    table = folder.read_json("config.json")
    del table["settings"]["alibi"]
    files = {**model_files_of(folder), "config.json": json_bytes(table)}
    weights = {"model.safetensors": folder.read_tensors("model.safetensors")}
    write_folder(tmp_path / "old", {**files, **weights})
    old, before = load_model(tmp_path / "old"), load_model(symmetric)
    assert old.config.alibi == ("symmetric" if positions == "alibi" else "directed")
    ids, lengths = torch.tensor([[2, 7, 5, 9, 3]]), torch.tensor([5])
    assert torch.equal(old.model(ids, lengths), before.model(ids, lengths))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "t5"])
@pytest.mark.parametrize(
    ("tokenizers", "settings"),
    [
        (JOINT, {}),
        (JOINT, {"tied": "none", "norm_position": "pre", "norm": "rms"}),
        (APART, {"tied": "target", "num_kv_heads": 1, "activation": "swiglu"}),
        (APART, {"tied": "none", "norm_position": "sandwich"}),
    ],
)
def test_a_model_comes_back_as_it_was(tmp_path, positions, tokenizers, settings):
    config = config_of(tokenizers, positions=positions, **settings)
    model, files = files_of(config, tokenizers)
    write_folder(tmp_path / "m", files)
    state = torch.get_rng_state()
    loaded = load_model(tmp_path / "m")
    assert torch.equal(torch.get_rng_state(), state)
    assert loaded.config == config
    assert loaded.generation == GenerationSettings().to_dict()
    assert loaded.path == tmp_path / "m"
    assert loaded.tokenizers.joint == tokenizers.joint
    assert loaded.tokenizers.files() == tokenizers.files()
    assert not any(module.training for module in loaded.model.modules())
    assert torch.equal(logits(loaded.model), logits(model))


def test_no_number_is_stored_twice(tmp_path):
    for tied, weights in [("all", 1), ("target", 2), ("none", 3)]:
        config = config_of(tied=tied)
        _, files = files_of(config)
        shapes = [list(tensor.shape) for tensor in files["model.safetensors"].values()]
        assert shapes.count([config.tgt_vocab_size, config.d_model]) == weights


def test_a_model_in_float16_takes_half_the_disk_and_is_float32_in_memory(tmp_path):
    model, files = files_of(config_of(), store=half)
    write_folder(tmp_path / "m", files)
    loaded = load_model(tmp_path / "m").model
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    torch.testing.assert_close(logits(loaded), logits(model), atol=1e-2, rtol=1e-2)


def test_the_files_of_a_checkpoint_go_beside_other_weights(tmp_path):
    _, files = files_of(config_of())
    checkpoint = RunFolder(tmp_path / "run").save(
        1, {**files, "optimizer.safetensors": {"m": torch.zeros(1)}, "state.json": b"{}"}
    )
    others = model_files_of(checkpoint)
    assert others == {name: content for name, content in files.items() if name != "model.safetensors"}


def test_only_a_model_with_classes_has_labels_in_its_config():
    table = json.loads(model_files(config_of(), (), {}, "")["config.json"])
    assert sorted(table) == ["format_version", "kind", "settings"]
    table = json.loads(model_files(config_of(), ("a", "b"), {}, "")["config.json"])
    assert table["labels"] == ["a", "b"]


def test_a_run_folder_is_used_by_its_best_model_else_by_its_newest(tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.lock(), pytest.raises(FolderError, match="no checkpoint yet"):
        load_model(run.path)
    models = {}
    for seed in (1, 2, 3):
        models[seed], files = files_of(config_of(), seed=seed)
        if seed < 3:
            run.save(seed, files)
    assert torch.equal(logits(load_model(run.path).model), logits(models[2]))
    run.write_best(files, step=1, is_average=False)
    assert torch.equal(logits(load_model(run.path).model), logits(models[3]))
    loaded = load_model(run.path / "checkpoints" / "step-00000001")
    assert torch.equal(logits(loaded.model), logits(models[1]))


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("absent", "does not exist"),
        ("file", "is a file"),
        ("empty", r"has no MANIFEST\.json"),
        ("n" * 300, "does not exist"),
    ],
)
def test_what_is_no_model_is_reported_in_one_line(tmp_path, path, output):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match=output) as raised:
        load_model(tmp_path / path)
    assert raised.value.hint


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "generation.json", "MANIFEST.json"]
)
def test_a_missing_file_is_named(tmp_path, name):
    _, files = files_of(config_of())
    write_folder(tmp_path / "m", files)
    (tmp_path / "m" / name).unlink()
    with pytest.raises(FolderError, match=name):
        load_model(tmp_path / "m")
    if name in ("config.json", "model.safetensors"):
        del files[name]
        write_folder(tmp_path / "n", files)
        with pytest.raises(FolderError, match=f"has no {name}"):
            load_model(tmp_path / "n")


def test_what_fit_wrote_has_neither_tokenisers_nor_decoding_defaults(tmp_path):
    _, files = files_of(config_of())
    write_folder(
        tmp_path / "m",
        {name: files[name] for name in files if name not in ("tokenizer.json", "generation.json")},
    )
    loaded = load_model(tmp_path / "m")
    assert loaded.generation == {}
    with pytest.raises(FolderError, match="has no tokeniser"):
        _ = loaded.tokenizers


def test_a_truncated_weights_file_is_reported_in_one_line(tmp_path):
    write_folder(tmp_path / "m", files_of(config_of())[1])
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(FolderError, match=r"model\.safetensors has .* bytes instead of"):
        load_model(tmp_path / "m")


def test_parts_of_different_models_do_not_fit_together(tmp_path):
    _, mine = files_of(config_of())
    _, wide = files_of(config_of(d_ff=32))
    _, deep = files_of(config_of(num_encoder_layers=2))
    _, others = files_of(config_of(APART, tied="target"), APART)
    for number, (mixed, output) in enumerate(
        [
            ({**mine, "model.safetensors": wide["model.safetensors"]}, r"is \[32\], the model's is \[16\]"),
            (
                {**mine, "model.safetensors": deep["model.safetensors"]},
                r"the model has no weight 'encoder\.blocks\.1\.",
            ),
            ({**deep, "model.safetensors": mine["model.safetensors"]}, r"'encoder\.blocks\.1\..* is missing"),
            (
                {**mine, "config.json": others["config.json"]},
                r"tokeniser has \d+ tokens, src_vocab_size is \d+",
            ),
            (
                {**mine, **{name: others[name] for name in others if "tokenizer" in name}},
                r"tokeniser has \d+ tokens, src_vocab_size is \d+",
            ),
        ]
    ):
        write_folder(tmp_path / str(number), mixed)
        with pytest.raises(FolderError, match=output) as raised:
            load_model(tmp_path / str(number))
        assert raised.value.hint


def config_json(**changes):
    content = json.loads(files_of(config_of())[1]["config.json"])
    content["settings"] |= changes.pop("settings", {})
    return {name: value for name, value in {**content, **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    ("content", "output", "hint"),
    [
        (config_json(format_version=2), "has format 2, this version of regard reads format 1", "install"),
        (config_json(format_version=...), "lacks format_version", ""),
        (config_json(settings_={}), "unknown key 'settings_'", ""),
        (config_json(labels="ab"), "labels are not a list of texts", "written by regard"),
        (config_json(labels=["a", 1]), "labels are not a list of texts", "written by regard"),
        (config_json(kind="encoder_decodr"), "unknown kind of model 'encoder_decodr'", "'encoder_decoder'"),
        (config_json(kind="os.system"), r"unknown kind of model 'os\.system'", ""),
        (config_json(kind=["encoder_decoder"]), "lacks format_version, kind or settings", ""),
        (config_json(settings={"d_modle": 8}), "unknown setting 'd_modle'", "'d_model'"),
        (config_json(settings={"kind": "encoder_decoder"}), "unknown setting 'kind'", ""),
        (config_json(settings={"d_model": "8"}), "d_model = '8'", ""),
        (config_json(settings={"d_model": True}), "d_model = True", ""),
        (config_json(settings={"d_model": -8}), "d_model = -8", ""),
        (config_json(settings={"num_heads": 3}), "divisible by num_heads", ""),
        (config_json(settings={"positions": "absolute"}), "positions = 'absolute'", ""),
        (config_json(settings={"d_model": 10**6}), "too few for the model of config.json", "another config"),
        (config_json(settings={"num_encoder_layers": 10**4}), "too few for the model of config.json", ""),
        (config_json(settings={"d_ff": 10**6, "d_model": 4000}), "too few for the model of config.json", ""),
        (config_json(settings={"positions": "learned", "max_positions": 10**8}), "too few for the model", ""),
        (
            config_json(settings={"d_model": 2**40}),
            "d_model = 1099511627776 is too large",
            "at most 1,000,000",
        ),
        (config_json(settings={"num_encoder_layers": 2**60}), "num_encoder_layers = .* is too large", ""),
        (config_json(settings={"d_ff": 10**30}), "d_ff is an integer of 100 bits", ""),
        (config_json(settings={"rotary_base": 10**400}), "rotary_base is an integer of 1,329 bits", ""),
        (
            {"format_version": 1, "kind": "encoder_decoder", "settings": {}},
            "'src_vocab_size' is missing",
            "copy the folder again",
        ),
        ({}, "lacks format_version, kind or settings", ""),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_a_hostile_config_is_reported_in_one_line(tmp_path, content, output, hint):
    files = files_of(config_of())[1] | {"config.json": json.dumps(content).encode()}
    write_folder(tmp_path / "m", files)
    with pytest.raises(FolderError, match=output) as raised:
        load_model(tmp_path / "m")
    assert "config.json" in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.hint


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", ["config.json", "generation.json", "tokenizer.json"])
def test_a_damaged_file_in_a_folder_with_a_manifest_to_match_is_refused_or_read(tmp_path, name):
    """An attacker can write a matching manifest, so the readers must be safe without it."""
    files = files_of(config_of())[1]
    write_folder(tmp_path / "m", files)
    manifest = json.loads((tmp_path / "m" / "MANIFEST.json").read_bytes())
    good, draw = files[name], random.Random(0)
    problems = []
    for _ in range(100):
        mutant = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(mutant))
            mutant[place : place + draw.choice([0, 1, 1, 30])] = draw.choice(
                [b"", b"0", b"-1", b"9" * 30, b"null", b'"', b"{", b"[" * 9999, b"\xff", b"\0", b"NaN", b","]
            )
        (tmp_path / "m" / name).write_bytes(mutant)
        manifest["files"][name] = {"bytes": len(mutant), "sha256": hashlib.sha256(mutant).hexdigest()}
        (tmp_path / "m" / "MANIFEST.json").write_text(json.dumps(manifest))
        try:
            load_model(tmp_path / "m")
        except UserError as error:
            problems.append(error.message)
    assert len(problems) > 50
    assert not [message for message in problems if "\n" in message]


def test_only_what_the_manifest_lists_is_read(tmp_path):
    _, files = files_of(config_of())
    _, others = files_of(config_of(APART, tied="target"), APART)
    write_folder(tmp_path / "m", files)
    for name in ("source_tokenizer.json", "target_tokenizer.json"):
        (tmp_path / "m" / name).write_bytes(others[name])
    assert load_model(tmp_path / "m").tokenizers.files() == JOINT.files()


def test_settings_that_a_newer_regard_adds_have_their_defaults_in_older_folders(tmp_path):
    content = config_json()
    del content["settings"]["activation_dropout"]
    write_folder(tmp_path / "m", {"config.json": json.dumps(content).encode()})
    assert read_config(VerifiedFolder.open(tmp_path / "m")) == (config_of(), ())


def test_weights_that_are_far_too_large_are_refused_before_they_are_read(tmp_path, monkeypatch):
    _, files = files_of(config_of())
    write_folder(
        tmp_path / "m", files | {"model.safetensors": {**files["model.safetensors"], "x": torch.zeros(10**6)}}
    )
    monkeypatch.setattr("regard.weights.model_folder.CHEAP_PARAMETERS", 0)
    monkeypatch.setattr(VerifiedFolder, "read_tensors", lambda *_: pytest.fail("it was read"))
    with pytest.raises(FolderError, match=r"bytes, too many for the model of config\.json"):
        load_model(tmp_path / "m")
