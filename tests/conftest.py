"""What all tests share."""

import contextlib
import gc
import importlib.metadata
import os
import runpy
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.first_calls import begin_test
from tests.unflushed import leave_unflushed

DEVICE = os.environ.get("REGARD_DEVICE", "cpu")  # where tests with a device run: cpu, cuda or simulated

# A machine that is busy is not a failure, the same commit gives the same result, and nothing is left on disk.
hypothesis.settings.register_profile("house", deadline=None, max_examples=40, derandomize=True, database=None)
hypothesis.settings.load_profile("house")


def pytest_configure():
    leave_unflushed()
    _read_extensions_once()
    if DEVICE == "simulated":
        from tests.simulated_device import simulated_device

        simulated_device()  # before the first backward pass, which counts the devices


def _read_extensions_once():
    """What installed packages say of extensions of regard is read once for each search path.

    beartype checks the first item of a registry wherever one is an argument. A registry then looks for
    extensions, in the metadata of all packages: a sixth of the time of tests that build models.
    """
    read, found = importlib.metadata.entry_points, {}

    def entry_points(**wanted):
        if wanted != {"group": "regard.extensions"}:
            return read(**wanted)
        path = tuple(sys.path)
        if path not in found:
            found[path] = read(**wanted)
        return found[path]

    importlib.metadata.entry_points = entry_points


def pytest_collection_modifyitems(items):
    """`-m device` selects the tests with a device."""
    for item in items:
        if "device" in getattr(item, "fixturenames", ()):
            item.add_marker("device")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Of the 15 seconds that it takes to import and list all tests, collections of garbage were 3."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()  # later ones skip the million objects that exist now
        gc.enable()


def pytest_runtest_setup(item):
    begin_test()
    _freeze_what_lasts(item.nodeid.partition("::")[0])


MANY = 200_000  # objects
_file = ""  # of the last test


def _freeze_what_lasts(file):
    """Between two files of tests, objects that nothing frees any more are taken from what is collected.

    Otherwise each full collection visits millions: modules that tests import, what earlier ones cached, and
    what pytest keeps, which pools of processes unfreeze.
    """
    global _file
    if file != _file and len(gc.get_objects()) > MANY:
        gc.collect()
        gc.freeze()
    _file = file


@pytest.fixture
def device(request, monkeypatch):
    """The device of REGARD_DEVICE; the tensors that the module names in ON_DEVICE are moved to it."""
    import torch

    from tests.simulated_device import SimulatedDevice

    with SimulatedDevice() if DEVICE == "simulated" else contextlib.nullcontext():
        for name in getattr(request.module, "ON_DEVICE", ()):
            found = getattr(request.module, name)
            here = [each.to(DEVICE) for each in found] if isinstance(found, list) else found.to(DEVICE)
            monkeypatch.setattr(request.module, name, here)
        yield torch.device(DEVICE)


@pytest.fixture
def queued(device):
    """What the processor waited for on a device with a queue: `waits`, a list of texts."""
    from tests.simulated_device import CudaWaits, current_simulation

    if device.type == "cpu":
        pytest.skip("needs a device with a queue: REGARD_DEVICE=cuda, or simulated")
    if device.type == "simulated":
        yield current_simulation()
        return
    with CudaWaits(device) as waits:
        yield waits


@pytest.fixture
def sigmoid():
    """The class of examples/attention.py, registered as "sigmoid" during the test."""
    from regard.models.registered import ATTENTIONS

    before = dict(ATTENTIONS.added)
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples/attention.py"), run_name="example")
    yield example["SigmoidAttention"]
    ATTENTIONS.added.clear()
    ATTENTIONS.added.update(before)


@pytest.fixture(scope="session")
def untrained(tmp_path_factory):
    """A model folder with random weights, of the symbols 0 to 9."""
    # not above: regard must be imported after the hook that checks its types
    from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
    from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
    from regard.models.build import build_model
    from regard.models.encoder_decoder import EncoderDecoderConfig
    from regard.weights.folder import write_folder
    from regard.weights.model_folder import model_files
    from regard.weights.tensors import model_tensors

    folder = tmp_path_factory.mktemp("models") / "untrained"
    corpus = open_corpus(CorpusSettings(synthetic="copy", size=50, length=6), LinePolicy(), folder)
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
    size = tokenizers.source.vocab_size
    config = EncoderDecoderConfig(
        src_vocab_size=size,
        tgt_vocab_size=size,
        d_model=16,
        num_heads=2,
        d_ff=32,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    weights = model_tensors(build_model(config, seed=3))
    files = model_files(
        config,
        (),
        {**tokenizers.files(), "generation.json": b'{"beam_size": 2, "max_length": 12}'},
        'name = "untrained"\n',
    )
    write_folder(folder, {**files, "model.safetensors": weights, "README.md": b"# untrained\n"})
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory):
    """Makes model folders of encoders with random weights and the head that is asked for."""
    from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
    from regard.models.build import build_model
    from regard.models.encoder_only import EncoderOnlyConfig
    from regard.weights.folder import write_folder
    from regard.weights.model_folder import model_files
    from regard.weights.tensors import model_tensors

    words = ["a", "good", "bad", "film", "the", "cat", "sat", "on", "mat", ".", ",", "unbelievability"]
    settings = TokenizerSettings(vocab_size=60)
    small = {"preset": "modern", "d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1}

    def made(head, labels=(), *, config_labels=None, others=None, tokens="bpe", **changes):
        folder = tmp_path_factory.mktemp("encoders") / head
        tokenizer = train_tokenizer(words * 2, tokens, settings)
        sizes = {"vocab_size": tokenizer.vocab_size, "head": head, "num_labels": len(labels)}
        config = EncoderOnlyConfig.from_table({**small, "fresh_head": False, **changes}, **sizes)
        model = build_model(config, seed=3)
        for parameter in model.parameters():
            parameter.data *= 5.0  # or all classes are all but equally likely
        others = {"tokenizer.json": tokenizer.to_bytes(), **(others or {})}
        files = model_files(
            config, labels if config_labels is None else config_labels, others, f'name = "{head}"\n'
        )
        weights = {"model.safetensors": model_tensors(model), "README.md": b"# an encoder\n"}
        write_folder(folder, {**files, **weights})
        return folder

    return made


@pytest.fixture(scope="session")
def browser():
    """The chromium of this machine; one for all tests, since a process can have one Playwright."""
    from benchmarks.look_chromium import MISSING, OPTIONS, chromium

    if chromium() is None:
        pytest.skip(MISSING)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        # optimised code of an engine in WebAssembly takes seconds, in which it would have computed all
        options = [*OPTIONS, "--js-flags=--liftoff-only", "--renderer-process-limit=1"]
        browser = driver.chromium.launch(executable_path=chromium(), args=options)
        yield browser
        browser.close()


OF_A_PAGE = {"color_scheme", "forced_colors"}  # settings of a context that a page can have by itself


@pytest.fixture(scope="session")
def shared_context(browser):
    """A context of the browser in which two pages stay open: the processes that show them show the others.

    To start one takes more than a second, longer than most of what a test does with its page.
    """
    context = browser.new_context()
    served, file = context.new_page(), context.new_page()
    served.route("**/*", lambda route: route.fulfill(body="open"))
    served.goto("http://127.0.0.1/")  # a process is of one site, whatever the port; all files are another
    file.goto(Path(__file__).parent.as_uri())
    yield context
    context.close()


@pytest.fixture
def new_page(browser, shared_context):
    """Opens pages, which the test's end closes; `settings` are those of a browser's context."""
    with contextlib.ExitStack() as stack:

        def opened(viewport, **settings):
            if not settings.keys() <= OF_A_PAGE:
                context = browser.new_context(viewport=viewport, **settings)
                stack.callback(context.close)
                return context.new_page()
            page = shared_context.new_page()
            stack.callback(page.close)
            page.set_viewport_size(viewport)
            if settings:
                page.emulate_media(**settings)
            return page

        yield opened


CHAT = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


@pytest.fixture(scope="session")
def decoder_folder(tmp_path_factory):
    """Makes model folders of decoders without a source, with random weights; `kind` of tokeniser.

    `chat`: the text of a chat template.
    """
    from regard.data.chat_template import ChatTemplate
    from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
    from regard.decoding.continuation import ContinuationSettings
    from regard.models.build import build_model
    from regard.models.decoder_only import DecoderOnlyConfig
    from regard.weights.folder import write_folder
    from regard.weights.model_folder import model_files
    from regard.weights.strict_json import json_bytes
    from regard.weights.tensors import model_tensors

    text = "To be, or not to be:\nthat is the question. Ärger, naïve 東京 — whether 'tis nobler\n" * 3
    small = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1, "positions": "rotary"}

    def made(kind="characters", *, decoding=None, chat=None, **changes):
        folder = tmp_path_factory.mktemp("decoders") / kind
        tokenizer = train_tokenizer([text], kind, TokenizerSettings(kind=kind, vocab_size=300))
        config = DecoderOnlyConfig.from_table({**small, **changes}, vocab_size=tokenizer.vocab_size)
        model = build_model(config, seed=3)
        for parameter in model.parameters():
            parameter.data *= 12.0  # or all tokens are all but equally likely
        settings = ContinuationSettings(**{"max_new_tokens": 24, **(decoding or {})})
        others = {
            "tokenizer.json": tokenizer.to_bytes(),
            "generation.json": json_bytes(settings.to_dict()),
        }
        if chat is not None:
            template = ChatTemplate(template=chat, special_tokens={"eos_token": "</s>"})
            others["chat_template.json"] = json_bytes(template.to_dict())
        files = model_files(config, (), others, f'name = "{kind}"\n')
        weights = {"model.safetensors": model_tensors(model), "README.md": b"# a decoder\n"}
        write_folder(folder, {**files, **weights})
        return folder

    return made


@pytest.fixture(scope="session")
def their_folder(tmp_path_factory):
    """Makes Hugging Face folders: a small random model of transformers, and the files of a tokeniser.

    `pieces`: "wordpiece", which begins with BERT's marks, or "bytes", which begins with RoBERTa's and ends
    with `more`; `files` are others, by their names.
    """
    import json

    marks = {
        "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "bytes": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    }
    words = ["paris", "berlin", "is", "the", "capital", "of", "france", ".", "a", "good", "bad", "film", "un"]
    words += ["##able", "##s"]

    def made(model, config, settings, *, pieces="wordpiece", more=(), files=None):
        import torch
        import transformers
        from tokenizers.pre_tokenizers import ByteLevel

        folder = tmp_path_factory.mktemp("theirs") / model
        own = marks[pieces]
        if pieces == "wordpiece":
            vocabulary = [*own, *words]
            texts = {"vocab.txt": "".join(f"{piece}\n" for piece in vocabulary)}
        else:
            vocabulary = [*own, *sorted(ByteLevel.alphabet()), "Ġo", "Ġof", *more]
            numbers = {piece: number for number, piece in enumerate(vocabulary)}
            texts = {"vocab.json": json.dumps(numbers), "merges.txt": "#version: 0.2\nĠ o\nĠo f\n"}
        torch.manual_seed(7)
        settings = {"vocab_size": len(vocabulary), "initializer_range": 0.5, **settings}
        theirs = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
        theirs.save_pretrained(folder)
        for name, text in {**texts, **(files or {})}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        return folder, theirs, vocabulary

    return made


@pytest.fixture(scope="session")
def their_encoder(their_folder):
    """The same for encoders of BERT's kind: the class of transformers says which."""
    small = {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "intermediate_size": 24,
        "max_position_embeddings": 18,
    }
    distil = {"dim": 16, "n_heads": 2, "n_layers": 1, "hidden_dim": 24, "max_position_embeddings": 16}

    def made(model, *, files=None, **settings):
        prefix = next(each for each in ("DistilBert", "Roberta", "Bert") if model.startswith(each))
        sizes = distil if prefix == "DistilBert" else small
        pieces = "bytes" if prefix == "Roberta" else "wordpiece"
        return their_folder(model, f"{prefix}Config", {**sizes, **settings}, pieces=pieces, files=files)

    return made


@pytest.fixture(scope="session")
def sentence_encoder(their_encoder):
    """A BERT whose other files make it a sentence encoder: a mean of the states, of length 1."""
    modules = '[{"type": "sentence_transformers.models.%s"}, {"type": "sentence_transformers.models.%s"}]'
    files = {
        "modules.json": modules % ("Pooling", "Normalize"),
        "1_Pooling/config.json": '{"word_embedding_dimension": 16, "pooling_mode_mean_tokens": true}',
    }
    return their_encoder("BertModel", files=files)


@pytest.fixture(scope="session")
def vision_folder(tmp_path_factory):
    """Makes model folders of vision transformers with random weights, each beside `images.npz`."""

    def made(*, labels=("cat", "dog", "fish"), **changes):
        import numpy as np

        from regard.models.build import build_model
        from regard.models.vision import VisionConfig
        from regard.weights.folder import write_folder
        from regard.weights.model_folder import model_files
        from regard.weights.tensors import model_tensors

        folder = tmp_path_factory.mktemp("eyes") / "vision"
        small = {"image_size": 12, "channels": 3, "patch_size": 4, "d_model": 16, "num_heads": 2, "d_ff": 32}
        config = VisionConfig(**{"num_labels": len(labels), "num_layers": 2, **small, **changes})
        files = model_files(config, labels, {}, 'name = "vision"\n')
        model = build_model(config, seed=3)
        for parameter in model.parameters():
            parameter.data *= 1.5  # or all patches are looked at alike
        weights = {"model.safetensors": model_tensors(model), "README.md": b"# a vision transformer\n"}
        write_folder(folder, {**files, **weights})
        sizes = (4, config.image_size, config.image_size, config.channels)
        pixels = np.random.default_rng(0).integers(0, 256, sizes, dtype=np.uint8)
        np.savez(folder.parent / "images.npz", images=pixels)
        return folder

    return made
