"""Servers that show a browser models of each kind. Without a browser these tests are skipped."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.browser.visit import Visit

KINDS = ("encoder_decoder", "recurrent", "decoder_only", "encoder_only", "vision")


class OfKinds(dict[str, Any]):
    """Something of each kind of model, made when it is first asked for."""

    def __init__(self, made: Callable[[str], Any]) -> None:
        super().__init__()
        self._made = made

    def __missing__(self, kind: str) -> Any:
        self[kind] = self._made(kind)
        return self[kind]


@pytest.fixture
def visit(new_page):
    """Opens a recorded page at an address; `settings` are those of a browser's context."""

    def visited(address, fragment="", **settings):
        page = new_page(**{"viewport": {"width": 1200, "height": 900}, **settings})
        return Visit(page, address).open(fragment)

    return visited


@pytest.fixture(scope="package")
def serve():
    """Serves looks as `regard look` does, on a port of its own; gives its address."""
    from regard.serving.local import LocalServer

    with ExitStack() as stack:

        def served(looks):
            server = stack.enter_context(LocalServer(looks))
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server.url

        yield served


@pytest.fixture(scope="package")
def lookers(recurrent_folder, decoder_folder, encoder_folder, vision_folder):
    """A model of each kind, and what it is asked; that of encoders and decoders is the included model."""
    from regard.verbs.look import Looker, LookRequest

    def made(kind):
        if kind == "encoder_decoder":
            return Looker(device="cpu"), LookRequest(text="Where is the station?")
        if kind == "recurrent":
            return Looker(recurrent_folder, device="cpu"), LookRequest(text="1 2 3 4 5")
        if kind == "decoder_only":
            decoder = decoder_folder(num_layers=2, decoding={"max_new_tokens": 6})
            return Looker(decoder, device="cpu"), LookRequest(text="To be, or", beam_size=2)
        if kind == "encoder_only":
            encoder = encoder_folder("classification", ("bad", "good", "mixed"))
            return Looker(encoder, device="cpu"), LookRequest(text="a good film .")
        eyes = vision_folder()
        return Looker(eyes, device="cpu"), LookRequest(text=f"{eyes.parent / 'images.npz'}:1")

    return OfKinds(made)


@pytest.fixture(scope="package")
def addresses(serve, lookers):
    """Where each kind is served."""
    from regard.serving.look_store import LookStore

    return OfKinds(lambda kind: serve(LookStore(*lookers[kind])))


@pytest.fixture(scope="package")
def files(tmp_path_factory, lookers):
    """The page of each kind as one file."""
    folder = tmp_path_factory.mktemp("pages")

    def written(kind):
        looker, request = lookers[kind]
        return looker(request).to_html(folder / f"{kind}.html")

    return OfKinds(written)


@pytest.fixture(scope="session")
def recurrent_folder(tmp_path_factory):
    """A recurrent model with attention and random weights, of the symbols 0 to 9."""
    from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
    from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
    from regard.models.build import build_model
    from regard.models.recurrent import RecurrentConfig
    from regard.weights.folder import write_folder
    from regard.weights.model_folder import model_files
    from regard.weights.tensors import model_tensors

    folder = tmp_path_factory.mktemp("models") / "recurrent"
    corpus = open_corpus(CorpusSettings(synthetic="copy", size=50, length=6), LinePolicy(), folder)
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
    size = tokenizers.source.vocab_size
    config = RecurrentConfig(
        src_vocab_size=size, tgt_vocab_size=size, d_model=16, d_embedding=8, attention="additive"
    )
    others = {**tokenizers.files(), "generation.json": b'{"beam_size": 2, "max_length": 8}'}
    files = model_files(config, (), others, 'name = "recurrent"\n')
    weights = {"model.safetensors": model_tensors(build_model(config, seed=3)), "README.md": b"# recurrent\n"}
    write_folder(folder, {**files, **weights})
    return folder
