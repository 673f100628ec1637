"""A wrong argument is refused by its name before anything is loaded, in Python and on the command line."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.cli import run
from regard.decoding.control import MOST_HYPOTHESES, MOST_TOKENS
from regard.errors import DataError, UserError
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.device import choose_workers
from regard.verbs.shared.limits import LIMITS, THREADS_PER_CORE, cores

NOWHERE = Path("there/is/no/such/model")  # whoever tries to load it fails with another error
MOST = LIMITS["threads"].most
ONE_TEXT = {
    "translate": regard.translate,
    "summarize": regard.summarize,
    "generate": regard.generate,
    "classify": regard.classify,
    "embed": regard.embed,
    "fill": regard.fill,
    "tag": regard.tag,
}
WRONG = [
    ("translate", {"threads": 100_000}, "threads is 100000, but must be at most"),
    ("translate", {"threads": 0}, "threads is 0, but must be at least 1"),
    ("translate", {"workers": 10**6}, "workers is 1000000, but must be at most"),
    ("translate", {"workers": 0}, "workers is 0, but must be at least 1"),
    ("translate", {"max_new_tokens": 10**8}, "max_new_tokens is 100000000, but must be at most 100,000"),
    ("generate", {"max_new_tokens": 1e8}, "max_new_tokens must be a whole number, not 100000000.0"),
    ("translate", {"beam_size": 10**6}, "beam_size is 1000000, but must be at most 1,000"),
    ("translate", {"beam_size": "5"}, "beam_size must be a whole number, not '5'"),
    ("translate", {"beam_size": True}, "beam_size must be a whole number, not True"),
    (
        "translate",
        {"precision": "fp16"},
        "precision must be one of 'float32', 'bfloat16', 'int8', not 'fp16'",
    ),
    ("translate", {"n_best": -1}, "n_best is -1, but must be at least 1"),
    ("translate", {"n_best": 2.0}, "n_best must be a whole number, not 2.0"),
    ("translate", {"prefix": 7}, "prefix must be a str, not 7"),
    ("translate", {"prefix": "x" * 10**6}, "prefix has 1,000,000 characters, more than 5,000"),
    ("translate", {"model": b"folder"}, "model must be a str or a path or"),
    ("translate", {"length_penalty": "wo"}, "length_penalty must be one of"),
    ("generate", {"max_context": 10**8}, "max_context is 100000000, but must be at most 100,000"),
    ("generate", {"max_context": -1}, "max_context is -1, but must be at least 0"),
    ("translate", {"split": "sentences"}, "split must be one of 'auto', 'on', 'off', not 'sentences'"),
    ("generate", {"temperature": math.nan}, "temperature must be a finite number, not nan"),
    ("generate", {"temperature": math.inf}, "temperature must be a finite number, not inf"),
    ("generate", {"temperature": "0.5"}, "temperature must be a finite number, not '0.5'"),
    ("generate", {"top_k": -1}, "top_k is -1, but must be at least 0"),
    ("generate", {"top_p": 1.5}, "top_p is 1.5, but must be at most 1"),
    ("generate", {"seed": 1.5}, "seed must be a whole number, not 1.5"),
    ("generate", {"sample": 1}, "sample must be True or False, not 1"),
    ("generate", {"num": 0}, "num is 0, but must be at least 1"),
    ("generate", {"ban": ["a", 1]}, "ban must be a list, each a str"),
    ("generate", {"end_ids": ("1",)}, "end_ids must be a list, each a whole number"),
    ("generate", {"device": 0}, "device must be a str, not 0"),
    ("generate", {"device": "gpu"}, "unknown device 'gpu'"),
    ("classify", {"top": 0}, "top is 0, but must be at least 1"),
    ("fill", {"top": "3"}, "top must be a whole number, not '3'"),
    ("tag", {"words": "yes"}, "words must be True or False, not 'yes'"),
    ("embed", {"batch_tokens": 10**9}, "batch_tokens is 1000000000, but must be at most 1,000,000"),
    ("embed", {"batch_tokens": None}, "batch_tokens must be a whole number, not None"),
]


@pytest.mark.parametrize(("verb", "given", "message"), WRONG, ids=str)
def test_a_wrong_value_is_named_before_the_model_is_loaded(verb, given, message):
    with pytest.raises(UserError) as raised:
        ONE_TEXT[verb]("a text", **{"model": NOWHERE, **given})
    assert message in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("verb", ONE_TEXT)
@pytest.mark.parametrize("text", [5, None, b"a text", Path("a text"), ["a", 5], ("a", None)], ids=str)
def test_what_is_no_text_is_refused_before_the_model_is_loaded(verb, text):
    with pytest.raises(UserError) as raised:
        ONE_TEXT[verb](text, model=NOWHERE)
    assert isinstance(raised.value, DataError)
    assert raised.value.hint


def test_one_text_is_not_taken_for_its_letters(untrained, decoder_folder, encoder_folder):
    tagger = regard.Tagger(encoder_folder("tokens", ("A", "B")))
    with pytest.raises(DataError, match="'a film' is one text, not several"):
        tagger("a film")
    for several in (regard.Translator(untrained), regard.Generator(decoder_folder())):
        with pytest.raises(DataError, match="'1 2 3' is one text, not several") as raised:
            several("1 2 3")
        assert "[text]" in raised.value.hint
        assert ("Translator.texts" in raised.value.hint) == isinstance(several, regard.Translator)
        with pytest.raises(DataError, match="text 2 is int, not a string"):
            list(several(iter(["1", 2])))


def test_the_other_verbs_are_checked_too(tmp_path):
    file = tmp_path / "lines"
    file.write_text("1\n")
    for call, given, message in (
        (regard.evaluate, {"beam_size": "5"}, "beam_size must be a whole number"),
        (regard.evaluate, {"tokenize": "14a"}, "tokenize must be one of"),
        (regard.evaluate, {"src": 5}, "src must be a str or a path, not 5"),
        (regard.score, {"src": file, "ref": file, "threads": 10**5}, "threads is 100000"),
        (regard.score, {"src": None, "ref": file}, "score reads sources and translations from two files"),
        (regard.compare, {"systems": [file, 5], "ref": file}, "systems must be a list"),
        (regard.look, {"text": 5}, "text must be a str, not 5"),
        (regard.look, {"text": "a", "beam_size": 0}, "beam_size is 0"),
        (regard.average, {"run": tmp_path, "last": "2", "out": tmp_path}, "last must be a whole number"),
        (regard.convert, {"model": tmp_path, "out": tmp_path / "o", "to": "tf"}, "to must be one of"),
        (regard.plot_positions, {"out": tmp_path / "a.svg", "length": 10**9}, "length is 1000000000"),
        (regard.plot_positions, {"out": tmp_path / "a.svg", "scheme": "x"}, "scheme must be one of"),
        (regard.transcribe, {"input": "x.npz", "model": NOWHERE, "beam_size": -1}, "beam_size is -1"),
        (regard.train, {"recipe": NOWHERE, "workers": 100_000}, "workers is 100000, but must be at most"),
        (regard.train, {"recipe": NOWHERE, "threads": 100_000}, "threads is 100000, but must be at most"),
        (regard.train, {"recipe": NOWHERE, "workers": 0}, "workers is 0, but must be at least 1"),
        (regard.train, {"recipe": NOWHERE, "workers": MOST, "threads": MOST}, f"{MOST} workers of {MOST}"),
        (regard.train, {"recipe": NOWHERE, "workers": MOST}, "no such recipe"),
        (regard.train, {"recipe": NOWHERE, "overrides": "a.b=1"}, "overrides must be a list, each a str"),
        (regard.new, {"source": file, "minutes": "5"}, "minutes must be a finite number, not '5'"),
        (regard.new, {"source": file, "cores": 10**6}, "cores is 1000000, but must be at most"),
        (
            regard.new,
            {"source": file, "columns": "a,b"},
            "columns must be a list, each a str or a whole number",
        ),
        (regard.new, {"source": file, "columns": [0, 1.5]}, "columns must be a list, each a str or a whole"),
        (regard.new, {"source": file, "valid": [file, 5]}, "valid must be a str or a path or a list"),
        (regard.load, {"model": 5}, "model must be a str or a path"),
        (regard.load, {"model": NOWHERE, "threads": True}, "threads must be a whole number, not True"),
    ):
        with pytest.raises(UserError) as raised:
            call(**given)
        assert message in raised.value.message


def test_the_limit_of_threads_is_that_of_the_machine():
    assert LIMITS["threads"].most == THREADS_PER_CORE * cores() >= THREADS_PER_CORE
    with pytest.raises(UserError, match="threads is") as raised:
        regard.load(NOWHERE, threads=LIMITS["threads"].most + 1)
    assert f"{THREADS_PER_CORE} threads for " in raised.value.hint


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--threads", 100_000),
        ("--workers", 10**6),
        ("--beam-size", MOST_HYPOTHESES + 1),
        ("--n-best", MOST_HYPOTHESES + 1),
        ("--max-new-tokens", MOST_TOKENS + 1),
        ("--batch-tokens", 0),
        ("--temperature", math.nan),
    ],
)
def test_the_command_line_refuses_what_python_refuses(capsys, option, value):
    assert run(["translate", "a text", "--model", str(NOWHERE), option, str(value)]) == 2
    reported = capsys.readouterr().err
    assert option in reported or option[2:].replace("-", "_") in reported
    assert str(value) in reported
    with pytest.raises(UserError):
        regard.translate("a text", model=NOWHERE, **{option[2:].replace("-", "_"): value})


def test_training_is_refused_more_processes_than_fit(capsys):
    assert run(["train", str(NOWHERE), "--workers", "100000"]) == 2
    assert "--workers is 100000, but must be at most" in capsys.readouterr().err


def test_where_a_device_is_missing_the_hint_is_for_python_and_for_the_command_line():
    name = "cuda" if torch.backends.mps.is_available() else "mps"
    with pytest.raises(UserError, match=f"device {name} is not available here") as raised:
        regard.load(NOWHERE, device=name)
    assert 'device="auto" (--device auto)' in raised.value.hint
    with pytest.raises(UserError, match="workers is 2, but several decode on a CPU only") as raised:
        choose_workers(2, torch.device("cuda"), None)
    assert 'device="cpu" (--device cpu)' in raised.value.hint


def test_what_is_right_comes_through_as_it_is():
    @checked
    def given(
        number: int,
        *,
        share: float = 0.5,
        name: str | None = None,
        files: tuple[str | Path, ...] = (),
        reported: Callable[[str, int], None] | None = None,
    ) -> tuple:
        return number, share, name, files if reported is None else reported

    assert given(3) == (3, 0.5, None, ())
    assert given(np.int64(3), share=1, files=["a", Path("b")]) == (3, 1, None, ["a", Path("b")])
    assert type(given(np.int64(3))[0]) is int
    assert given(3, reported=print)[-1] is print
    with pytest.raises(TypeError, match="naem"):
        given(3, naem="x")
    with pytest.raises(TypeError, match="number"):
        given()
