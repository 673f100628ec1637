"""`regard generate`: continues a text, streamed or whole; mistakes are one line and a hint."""

import io
import json
import sys

import pytest

from regard.cli import run
from regard.cli.options import SINGULAR
from regard.verbs.generate import generate
from regard.verbs.generation.controls import CONTROLS_BY_NAME
from tests.conftest import CHAT
from tests.warm_process import start_python


@pytest.fixture(scope="module")
def model(decoder_folder):
    return str(decoder_folder("bytes"))


@pytest.fixture(scope="module")
def talking(decoder_folder):
    return str(decoder_folder("bytes", chat=CHAT))


def shown(capsys) -> str:
    return capsys.readouterr().out


def regard(*arguments):
    """`regard` as another process, with pipes."""
    return start_python(["-m", "regard", *arguments])


def test_a_prompt_is_continued(capsys, model):
    assert run(["generate", "To be,\nor", "--model", model, "--seed", "3"]) == 0
    assert shown(capsys) == generate("To be,\nor", model=model, seed=3) + "\n"


def test_it_is_continued_in_int8(capsys, model):
    assert run(["generate", "To be", "--model", model, "--precision", "int8"]) == 0
    assert shown(capsys) == generate("To be", model=model, precision="int8") + "\n"


def test_what_is_streamed_is_what_is_printed_whole(capsys, model):
    for prompt in ("To be", ""):
        assert run(["generate", prompt, "--model", model, "--stream"]) == 0
        assert shown(capsys) == generate(prompt, model=model) + "\n"


def test_several_texts_are_parted_by_a_line(capsys, model):
    assert run(["generate", "To be", "--model", model, "--num", "2", "--temperature", "2"]) == 0
    first, second = generate("To be", model=model, num=2, temperature=2.0)
    assert shown(capsys) == f"{first}\n---\n{second}\n"


@pytest.mark.parametrize("streamed", [[], ["--stream"]], ids=["whole", "streamed"])
def test_a_chat_prints_the_answer_alone(capsys, talking, tmp_path, streamed):
    arguments = ["generate", "--model", talking, "--chat", "--system", "that is", *streamed]
    to_be, nobler = generate(["To be", "nobler"], model=talking, chat=True, system="that is")
    assert run([*arguments, "To be"]) == 0
    assert shown(capsys) == f"{to_be}\n"
    assert generate("To be", model=talking, chat=True) != to_be
    (tmp_path / "messages.txt").write_text("To be\nnobler\n")
    assert run([*arguments, "--input", str(tmp_path / "messages.txt")]) == 0
    assert shown(capsys) == f"{to_be}\n---\n{nobler}\n"


def test_lines_typed_at_a_terminal_are_one_conversation(capsys, monkeypatch, talking):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("To be\nnobler\n"))
    messages = []
    for text in ("To be", "nobler"):
        messages.append({"role": "user", "content": text})
        messages.append({"role": "assistant", "content": generate(messages, model=talking, chat=True)})
    assert run(["generate", "--model", talking, "--chat"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "".join(f"{each['content']}\n" for each in messages[1::2])
    assert "Ctrl-D ends" in printed.err


def test_a_chat_needs_a_template_and_a_system_message_a_chat(capsys, model):
    assert run(["generate", "--model", model, "--chat", "To be"]) == 2
    assert "has no chat template" in capsys.readouterr().err
    assert run(["generate", "--model", model, "--system", "x", "To be"]) == 2
    assert "system is for a chat" in capsys.readouterr().err


@pytest.mark.parametrize("streamed", [[], ["--stream"]])
def test_each_line_of_a_file_is_a_prompt(capsys, model, tmp_path, streamed):
    (tmp_path / "prompts.txt").write_text("To be\n\nÄrger\n")
    assert run(["generate", "--input", str(tmp_path / "prompts.txt"), "--model", model, *streamed]) == 0
    assert shown(capsys) == "\n---\n".join(generate(["To be", "", "Ärger"], model=model)) + "\n"


def test_json_is_a_line_for_each_prompt(capsys, model, tmp_path):
    (tmp_path / "prompts.txt").write_text("To be\nor not\n")
    arguments = ["--json", "--num", "2", "--max-new-tokens", "5"]
    assert run(["generate", "--input", str(tmp_path / "prompts.txt"), "--model", model, *arguments]) == 0
    records = [json.loads(line) for line in shown(capsys).splitlines()]
    assert [(record["line"], record["prompt"]) for record in records] == [(1, "To be"), (2, "or not")]
    assert [len(record["continuations"]) for record in records] == [2, 2]
    assert max(len(each["tokens"]) for record in records for each in record["continuations"]) <= 5


@pytest.fixture
def without_beginnings(decoder_folder):
    """Eight characters are all that it reads, and it has never seen a text begin."""
    return decoder_folder(positions="learned", max_positions=8, decoding={"begin": False})


@pytest.mark.parametrize("streamed", [[], ["--stream"]])
def test_an_empty_line_among_prompts_stays_empty_where_no_text_ever_began(
    capsys, tmp_path, without_beginnings, streamed
):
    (tmp_path / "prompts.txt").write_text("To be\n\nor not\n")
    arguments = ["--input", tmp_path / "prompts.txt", "--model", without_beginnings, *streamed]
    assert run(["generate", *map(str, arguments)]) == 0
    first, last = generate(["To be", "or not"], model=without_beginnings)
    assert shown(capsys) == f"{first}\n---\n\n---\n{last}\n"


def test_no_n_gram_is_repeated_if_requested(capsys, decoder_folder):
    endless = decoder_folder(decoding={"begin": False, "temperature": 0.0, "max_new_tokens": 100})
    assert run(["generate", "To be", "--model", str(endless), "--no-repeat-ngram-size", "2"]) == 0
    text = shown(capsys)
    assert text == generate("To be", model=endless, no_repeat_ngram_size=2) + "\n"
    assert text != generate("To be", model=endless) + "\n"


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_whoever_writes_a_line_and_waits_gets_its_text(model, arguments):
    process = regard("generate", *arguments, "--model", model, "--threads", "1", "--temperature", "0")
    process.stdin.write("Ä\n".encode())
    process.stdin.flush()
    expected = generate("Ä", model=model, temperature=0.0) + "\n"
    assert process.stdout.read(len(expected.encode())).decode() == expected
    rest, reported = process.communicate(b"To be\nun\xff\n", timeout=60)
    assert rest.decode() == "---\n" + generate("To be", model=model, temperature=0.0) + "\n"
    assert process.returncode == 2
    assert reported.decode().splitlines()[0] == "error: standard input:3: not UTF-8 (byte 0xff at byte 3)"


def test_a_stream_writes_whole_characters_as_soon_as_they_are_there(monkeypatch, model):
    written = []
    monkeypatch.setattr("regard.cli.generate.write_output", written.extend)
    assert run(["generate", "To be", "--model", model, "--stream", "--seed", "2"]) == 0
    assert "".join(written) == generate("To be", model=model, seed=2) + "\n"
    assert written[0] == "To be"
    assert len(written) > 4
    assert not any(piece.endswith("\ufffd") for piece in written)


def reported(capsys, *arguments) -> tuple[str, str]:
    capsys.readouterr()
    assert run(["generate", *map(str, arguments)]) == 2
    out, shown = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in shown
    error, hint = shown.splitlines()[-2:]
    assert hint.startswith("hint: ")
    return error, hint


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["x", "--input", "y"], "both PROMPT and --input are given"),
        (["x", "--stream", "--json"], "--json prints whole texts only"),
        (["x", "--stream", "--num", "2"], "only a single text can be streamed, not --num 2"),
        (["x", "--stream", "--beam-size", "2"], "only a single text can be streamed"),
        (["x", "--temperature", "0", "--top-k", "3"], "top_k = 3 is for sampling, but temperature = 0"),
        (["x", "--temperature", "0", "--num", "3"], "greedy search finds one"),
        (["x", "--beam-size", "2", "--num", "3"], "num (3) is more than beam_size (2)"),
        (["--input", "missing.txt"], "no such file"),
        (["x", "--model", "missing"], "missing"),
    ],
)
def test_mistakes_are_named(capsys, model, arguments, error):
    given = arguments if "--model" in arguments else [*arguments, "--model", model]
    assert error in reported(capsys, *given)[0]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--prompt", "x"], "PROMPT stands without an option: `regard generate PROMPT`"),
        (["x", "--must-contain", "king"], "beam_size = 4 (--beam-size 4) would search"),
        (["x", "--stream", "--num", "2"], "leave out --num, or --stream"),
    ],
)
def test_mistakes_have_a_hint_as_it_is_typed(capsys, model, arguments, hint):
    assert reported(capsys, *arguments, "--model", model)[1] == f"hint: {hint}"


def test_what_nobody_typed_is_not_named(capsys, model):
    for arguments in (["--beam-size", "2"], ["--temperature", "0"]):
        error, hint = reported(capsys, "x", *arguments, "--num", "3", "--model", model)
        assert "n_best" not in error + hint
        assert "--num" in hint


@pytest.mark.parametrize(
    "arguments",
    [
        ["x"],
        ["x", "--max-new-tokens", "0"],
        ["x", "--temperature", "-1"],
        ["x", "--top-p", "0"],
        ["x", "--top-p", "1.5"],
        ["x", "--top-k", "-1"],
        ["x", "--num", "0"],
        ["x", "--seed", "a"],
        ["x", "--beam-size", "0"],
        ["x", "--no-repeat-ngram-size", "-1"],
    ],
)
def test_options_out_of_range_are_refused(capsys, model, arguments):
    given = arguments if arguments == ["x"] else [*arguments, "--model", model]
    reported(capsys, *given)


def test_an_empty_prompt_may_have_no_beginning(capsys, without_beginnings):
    assert "prompt 1 is empty" in reported(capsys, "", "--model", without_beginnings)[0]


def test_a_context_longer_than_the_model_is_reported_in_one_line(capsys, without_beginnings):
    assert run(["generate", "To be, or", "--model", str(without_beginnings), "--stream"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("To be, or")
    assert err.startswith("warning: prompt 1 has 9 tokens, but the model reads at most the last 8")
    assert err.count("\n") == 1
    error, hint = reported(capsys, "To be", "--model", without_beginnings, "--max-context", "99")
    assert "max_context = 99" in error
    assert "max_context = 8" in hint


def test_a_translator_is_sent_to_its_own_verb(capsys, untrained):
    error, hint = reported(capsys, "1 2", "--model", untrained)
    assert "not a model that continues texts" in error
    assert "regard translate" in hint


def test_controls_are_the_same_on_the_command_line_and_in_python(capsys, model):
    given = {"max_new_tokens": 30, "seed": 5, "stop": ("or", "be"), "ban": ("x", "z"), "boost": ("e=1.5",)}
    typed = [
        text
        for name, value in given.items()
        for each in (value if isinstance(value, tuple) else (value,))
        for text in ("--" + name.replace("_", "-"), str(each))
    ]
    assert run(["generate", "To", "--model", model, "--no-early-stopping", *typed]) == 0
    assert shown(capsys) == generate("To", model=model, **given) + "\n"
    assert run(["generate", "To", "--model", model, "--no-sample", "--end-ids", "40", "--end-ids", "41"]) == 0
    assert shown(capsys) == generate("To", model=model, sample=False, end_ids=(40, 41)) + "\n"


@pytest.mark.parametrize("verb", ["generate", "translate"])
def test_each_control_is_an_option_of_both_verbs(capsys, verb):
    assert run([verb, "--help"]) == 0
    reported = shown(capsys)
    options = ("--" + name.replace("_", "-") for name in CONTROLS_BY_NAME)
    assert not [option for option in options if f" {SINGULAR.get(option, option)}" not in reported]
