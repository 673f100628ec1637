"""OpenAI's own client, with its strict types, against the server."""

import asyncio
import base64
import json
import re
import struct
from types import SimpleNamespace

import openai
import pytest

from regard.errors import ConfigError, DataError, RunError
from regard.serving.dialects import openai_controls
from regard.serving.dialects.openai import Asked, _error_of, _most_tokens, _texts
from regard.serving.dialects.openai_shapes import CompletionShape, Shape, TextLimit, TextOffsets
from regard.serving.dialects.openai_types import ChatRequest, Sampling
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem, problem_of
from regard.serving.request import ClientGone
from regard.verbs.generate import Generator
from regard.verbs.translate import Translator
from tests.serving import asking
from tests.serving.asking import post
from tests.serving.made_models import MadeModel, Runner

TEXT = "Thank you. See you tomorrow!"


def client_of(server):
    return openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, _strict_response_validation=True
    )


@pytest.fixture(scope="module")
def translator(included):
    with client_of(included) as client:
        yield client


@pytest.fixture(scope="module")
def writer(generating):
    with client_of(generating) as client:
        yield client


def of_python(generating, prompts, **settings):
    return [
        each.continuations for each in Generator(generating.service.models.default.path, **settings)(prompts)
    ]


def test_models_are_listed_and_found(translator):
    assert [model.id for model in translator.models.list()] == ["en-de"]
    assert translator.models.retrieve("en-de").object == "model"
    with pytest.raises(openai.NotFoundError) as refused:
        translator.models.retrieve("gpt-4")
    assert refused.value.code == "model_not_found"


def test_a_chat_answers_the_last_message_with_its_translation(translator):
    messages = [
        {"role": "system", "content": "You are a translator."},
        {"role": "user", "content": "ignored"},
        {"role": "assistant", "content": "ignored"},
        {"role": "user", "content": TEXT},
    ]
    answer = translator.chat.completions.create(model="en-de", messages=messages, logprobs=True)
    [wanted] = Translator(asking.included(), threads=1).texts([TEXT])
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == (wanted.text, "stop")
    assert [each.token for each in choice.logprobs.content] == list(wanted.candidates[0].tokens)
    assert answer.usage.completion_tokens == len(wanted.candidates[0].tokens)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_n_choices_are_the_n_best(translator):
    answer = translator.chat.completions.create(
        model="en-de", messages=[{"role": "user", "content": "How are you?"}], n=3
    )
    [wanted] = Translator(n_best=3, threads=1).texts(["How are you?"])
    assert [each.message.content for each in answer.choices] == [each.text for each in wanted.candidates]


def test_a_message_names_the_field_n(serving, decoder_folder):
    server = serving({"chars": decoder_folder()})
    body = {"model": "chars", "prompt": "To be", "n": 3, "temperature": 0}
    answer = post(server, "/v1/completions", body)
    assert answer.status == 400
    message = "this search finds fewer texts than n = 3; leave out n, or raise temperature"
    assert (answer.json["error"]["message"], answer.json["error"]["param"]) == (message, "n")
    answer = post(server, "/v1/completions", {"model": "chars", "prompt": "To be", "num": 3})
    assert answer.json["error"]["message"].startswith("there is no field num; ")


def test_what_was_sent_is_repeated_as_it_was():
    problem = problem_of(ConfigError("boost 'num' has no weight", "write num=1"))
    assert _error_of(problem).error.message == "boost 'num' has no weight; write num=1"


def test_a_streamed_chat_is_the_whole_one(translator):
    asked = {"model": "en-de", "messages": [{"role": "user", "content": TEXT}]}
    whole = translator.chat.completions.create(**asked)
    chunks = list(
        translator.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    assert (
        "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
        == whole.choices[0].message.content
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_what_a_client_sends_that_changes_nothing_is_accepted(included):
    """Explicit defaults, and the two names of one limit if they agree."""
    body = {"model": "en-de", "messages": [{"role": "user", "content": "Hello"}]}
    wanted = post(included, "/v1/chat/completions", body).json["choices"]
    same = {"top_p": 1, "temperature": 1, "top_k": 0, "service_tier": "auto", "seed": 3, "n": 1}
    limits = {"max_tokens": 99, "max_completion_tokens": 99}
    assert post(included, "/v1/chat/completions", {**body, **same}).json["choices"] == wanted
    assert post(included, "/v1/chat/completions", {**body, **limits}).json["choices"] == wanted
    text = {"modalities": ["text"], "response_format": {"type": "text"}}
    none = dict.fromkeys(["tool_choice", "function_call", "reasoning_effort"], "none")
    assert post(included, "/v1/chat/completions", {**body, **text, **none}).json["choices"] == wanted


def test_an_explicit_default_replaces_what_a_model_samples_by(serving, decoder_folder):
    """A model's own generation.json may have another top_p than 1."""
    folder = decoder_folder(decoding={"top_p": 0.01})
    with client_of(serving({"own": folder})) as client:

        def texts(**settings):
            answer = client.completions.create(
                model="own", prompt="To be", max_tokens=12, seed=5, n=4, temperature=2.0, **settings
            )
            return [choice.text for choice in answer.choices]

        assert len(set(texts())) == 1
        assert len(set(texts(top_p=1))) == 4


def test_a_stream_ends_with_done(included):
    body = {"model": "en-de", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
    for more in ({}, {"logprobs": False}):
        found = post(included, "/v1/chat/completions", {**body, **more})
        assert found.content.endswith(b"data: [DONE]\n\n")


def test_completions_are_those_of_the_python_call(writer, generating):
    asked = {"temperature": 0.7, "seed": 4, "top_p": 0.9, "presence_penalty": 0.5}
    answer = writer.completions.create(
        model="chars", prompt=["To be", "that"], n=2, max_tokens=9, logprobs=0, **asked
    )
    wanted = of_python(generating, ["To be", "that"], num=2, max_new_tokens=9, **asked)
    flat = [each for one in wanted for each in one]
    assert [each.text for each in answer.choices] == [each.text for each in flat]
    assert [each.index for each in answer.choices] == [0, 1, 2, 3]
    for choice, each in zip(answer.choices, flat, strict=True):
        assert choice.logprobs.tokens == list(each.tokens)
        assert choice.logprobs.token_logprobs == list(each.token_log_probs[: len(each.tokens)])
        assert choice.finish_reason == ("length" if len(each.tokens) == 9 else "stop")


def test_a_streamed_completion_is_the_whole_one(writer, generating):
    """The client's strict types have no chunk without a finish_reason, which OpenAI sends too."""
    asked = {"model": "chars", "prompt": "To be", "max_tokens": 20, "seed": 2}
    whole = writer.completions.create(**asked)
    with openai.OpenAI(base_url=f"{generating.url}/v1", api_key="none") as usual:
        chunks = list(usual.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_streamed_completion_ends_and_counts_as_the_whole_one(talking, seed):
    """Its text has other tokens when it is tokenised again: bytes of no character are left out."""
    with client_of(talking) as writer:
        free = writer.completions.create(model="chat", prompt="To be", max_tokens=20, seed=seed)
        for stop in (None, free.choices[0].text[-3:].strip("\ufffd") or None):
            asked = {"model": "chat", "prompt": "To be", "max_tokens": 20, "seed": seed, "stop": stop}
            whole = writer.completions.create(**asked)
            with openai.OpenAI(base_url=f"{talking.url}/v1", api_key="none") as usual:
                options = {"stream": True, "stream_options": {"include_usage": True}}
                chunks = list(usual.completions.create(**asked, **options))
            [reason] = [each.choices[0].finish_reason for each in chunks if each.choices][-1:]
            assert reason == whole.choices[0].finish_reason
            assert chunks[-1].usage == whole.usage


def test_echo_stop_and_temperature_zero(writer, generating):
    [[wanted]] = of_python(generating, ["To be"], temperature=0.0, max_new_tokens=12)
    asked = {"model": "chars", "prompt": "To be", "max_tokens": 12, "temperature": 0}
    assert writer.completions.create(**asked, echo=True).choices[0].text == "To be" + wanted.text
    *parts, _ = post(generating, "/v1/completions", {**asked, "echo": True, "stream": True}).events()
    streamed = [json.loads(part)["choices"][0]["text"] for part in parts]
    assert (streamed[0], "".join(streamed)) == ("To be", "To be" + wanted.text)
    stop = wanted.text[-1]
    answer = writer.completions.create(**asked, stop=[stop])
    assert answer.choices[0].text == wanted.text[: wanted.text.index(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_the_tokens_of_all_choices_are_in_the_log(generating):
    body = {"model": "chars", "prompt": "To be", "max_tokens": 5, "n": 2}
    answer = post(generating, "/v1/completions", body, headers={"X-Request-Id": "two-choices"})
    logged = json.loads(generating.log.wait_for('"two-choices"'))
    assert logged["output_tokens"] == answer.json["usage"]["completion_tokens"] > 0


def test_without_max_tokens_a_text_that_a_stop_ended_says_so(writer, generating, translator):
    [token] = generating.service.models.default.engine.model.loaded.tokenizers.target.encode("e")
    for stop, reason in (("eee", "stop"), ("ef", "length")):
        asked = {"temperature": 0, "logit_bias": {str(token): 100}, "stop": stop}
        answer = writer.completions.create(model="chars", prompt="To be", **asked)
        assert answer.choices[0].finish_reason == reason
    asked = {"model": "en-de", "messages": [{"role": "user", "content": "Where is the station?"}]}
    answer = translator.chat.completions.create(**asked, stop=["Bahnhof"])
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("most", [2, 3, 100])
@pytest.mark.parametrize("text", [TEXT, "Yes. Where is the station, please?", "Where is the station?"])
def test_a_translation_that_max_tokens_cut_says_so_whole_and_streamed(translator, text, most):
    asked = {"model": "en-de", "messages": [{"role": "user", "content": text}], "max_tokens": most}
    assert translator.chat.completions.create(**asked).choices[0].finish_reason == (
        "stop" if most == 100 else "length"
    )
    chunks = list(translator.chat.completions.create(**asked, stream=True))
    assert chunks[-1].choices[0].finish_reason == ("stop" if most == 100 else "length")


def test_an_answered_message_can_be_sent_back(translator):
    messages = [{"role": "user", "content": "Yes.", "name": "somebody"}]
    first = translator.chat.completions.create(model="en-de", messages=messages).choices[0].message
    messages += [first.model_dump(), {"role": "user", "content": [{"type": "text", "text": "Yes."}]}]
    again = translator.chat.completions.create(model="en-de", messages=messages).choices[0].message
    assert again == first


def test_the_parts_of_a_message_are_translated_as_lines(translator):
    def answer(content):
        messages = [{"role": "user", "content": content}]
        return translator.chat.completions.create(model="en-de", messages=messages).choices[0].message.content

    parts = [{"type": "text", "text": text} for text in ("Thank you.", "Good night.")]
    assert answer(parts) == "\n".join(answer(part["text"]) for part in parts)


def test_logit_bias_forbids_and_favours_tokens(writer, generating):
    tokenizer = generating.service.models.default.engine.model.loaded.tokenizers.target
    [token] = tokenizer.encode("e")
    asked = {"model": "chars", "prompt": "To be", "max_tokens": 8, "temperature": 0}
    favoured = writer.completions.create(**asked, logit_bias={str(token): 100})
    assert favoured.choices[0].text == "e" * 8
    forbidden = writer.completions.create(**asked, logit_bias={str(token): -100})
    assert "e" not in forbidden.choices[0].text


def test_embeddings_as_numbers_and_as_bytes(serving, encoder_folder):
    import regard

    folder = encoder_folder("classification", ("a", "b"))
    server = serving({"vectors": folder})
    wanted = regard.embed(["a good film .", "the cat"], model=folder)
    asked = {"model": "vectors", "input": ["a good film .", "the cat"]}
    with client_of(server) as client:
        answer = client.embeddings.create(**asked, encoding_format="float")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as usual:
        for each, same in zip(usual.embeddings.create(**asked).data, answer.data, strict=True):
            assert each.embedding == pytest.approx(same.embedding, abs=1e-6)  # it asks for base64
    for each, vector in zip(answer.data, wanted, strict=True):
        assert each.embedding == pytest.approx(vector.tolist(), abs=1e-6)
    raw = post(
        server, "/v1/embeddings", {"model": "vectors", "input": "the cat", "encoding_format": "base64"}
    ).json
    numbers = struct.unpack("<16f", base64.b64decode(raw["data"][0]["embedding"]))
    assert list(numbers) == pytest.approx(wanted[1].tolist(), abs=1e-6)
    known = {"model": "vectors", "input": "the cat"}
    assert post(server, "/v1/embeddings", {**known, "dimensions": 16}).json["data"]
    for dimensions in (15, 17):
        refused = post(server, "/v1/embeddings", {**known, "dimensions": dimensions})
        assert (refused.status, refused.json["error"]["param"]) == (400, "dimensions")
        assert "the vectors of vectors have 16 numbers" in refused.json["error"]["message"]


MESSAGES = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "To"}, {"type": "text", "text": "be"}]},
    {"role": "assistant", "content": "or not"},
    {"role": "user", "content": "to be"},
]
PLAIN = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "To\nbe"}, *MESSAGES[2:]]


def test_a_chat_model_answers_the_conversation_by_its_template(talking):
    generator = Generator(talking.service.models.default.path, chat=True, seed=4, num=2)
    wanted = generator.one(PLAIN)
    with client_of(talking) as client:
        asked = {"model": "chat", "messages": MESSAGES, "seed": 4}
        answer = client.chat.completions.create(**asked, n=2, logprobs=True)
        assert [each.message.content for each in answer.choices] == wanted.texts
        tokens = [each.token for each in answer.choices[0].logprobs.content]
        assert tokens == list(wanted.continuations[0].tokens)
        assert answer.usage.prompt_tokens == len(generator.prompts.encode([wanted.prompt])[0])
        chunks = list(client.chat.completions.create(**asked, stream=True))
        assert "".join(each.choices[0].delta.content or "" for each in chunks) == wanted.texts[0]
        as_prompt = client.completions.create(model="chat", prompt="to be", seed=4)
        [plain] = Generator(talking.service.models.default.path, seed=4)(["to be"])
        assert as_prompt.choices[0].text == plain.continuations[0].text


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"role": "tool", "content": "a", "tool_call_id": None}, "role tool"),
        ({"role": "user", "content": "a", "name": "Anna"}, "name"),
        ({"role": "user", "content": "a</s>"}, "message 1 spells '</s>'"),
    ],
)
def test_messages_that_a_chat_model_cannot_read_are_refused(talking, message, named):
    answer = post(talking, "/v1/chat/completions", {"model": "chat", "messages": [message]})
    assert (answer.status, named in answer.json["error"]["message"]) == (400, True)


USER = [{"role": "user", "content": "a"}]
REFUSED = [
    ("/v1/chat/completions", {"messages": USER, "tools": [{"type": "function"}]}, "tools"),
    (
        "/v1/chat/completions",
        {"messages": USER, "response_format": {"type": "json_object"}},
        "response_format",
    ),
    ("/v1/chat/completions", {"messages": USER, "top_logprobs": 3}, "top_logprobs"),
    ("/v1/chat/completions", {"messages": USER, "audio": {"voice": "x"}}, "audio"),
    ("/v1/chat/completions", {"messages": USER, "tool_choice": "auto"}, "tool_choice"),
    ("/v1/chat/completions", {"messages": USER, "modalities": ["text", "audio"]}, "modalities"),
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "content": "a"}]}, "last message"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "image_url",
    ),
    *(
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [part]}]}, "content of type")
        for part in ({"type": "text"}, {"type": "refusal", "text": "a"})
    ),
    ("/v1/chat/completions", {"messages": []}, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "user"}]}, "no content"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": None}]}, "no content"),
    ("/v1/chat/completions", {"messages": USER, "no_such_field": 1}, "no_such_field"),
    ("/v1/chat/completions", {"messages": USER, "temperature": 3}, "temperature"),
    ("/v1/chat/completions", {"messages": USER, "n": 0}, "n"),
    ("/v1/chat/completions", {"messages": USER, "n": 10**9}, "n"),
    ("/v1/chat/completions", {"messages": USER, "n": 2, "stream": True}, "stream with several answers"),
    ("/v1/completions", {"prompt": ["a", "b"], "stream": True}, "stream with several answers"),
    ("/v1/chat/completions", {"messages": USER, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ("/v1/completions", {"prompt": "a", "logprobs": 6}, "logprobs"),
    ("/v1/completions", {"prompt": "a", "logprobs": 0, "echo": True}, "echo with logprobs"),
    ("/v1/completions", {"prompt": "a", "logprobs": 0, "echo": True, "stream": True}, "echo with logprobs"),
    ("/v1/completions", {"prompt": "a", "best_of": 2}, "best_of"),
    ("/v1/completions", {"prompt": "a", "n": 2, "best_of": 1}, "best_of"),
    ("/v1/chat/completions", {"messages": USER, "logit_bias": {"x": 1}}, "logit_bias"),
    ("/v1/chat/completions", {"messages": USER, "logit_bias": {"0": 1}}, "logit_bias"),
    ("/v1/chat/completions", {"messages": [{**USER[0], "tool_calls": [{"id": "x"}]}]}, "tool_calls"),
    ("/v1/chat/completions", {"messages": [{**USER[0], "no_such": 1}]}, "no_such"),
    ("/v1/chat/completions", {"messages": USER, "stream_options": {"no_such": 1}}, "no_such"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "no_such": 1}]}]},
        "no_such",
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "image_url": "b"}]}]},
        "image_url",
    ),
    ("/v1/chat/completions", {"messages": USER, "stream_options": {"include_usage": True}}, "stream_options"),
    (
        "/v1/chat/completions",
        {"messages": USER, "stream": True, "stream_options": {"include_obfuscation": True}},
        "include_obfuscation",
    ),
    ("/v1/chat/completions", {"messages": USER, "service_tier": "flex"}, "service_tier"),
    ("/v1/chat/completions", {"messages": USER, "parallel_tool_calls": False}, "parallel_tool_calls"),
    ("/v1/chat/completions", {"messages": USER, "max_tokens": 2, "max_completion_tokens": 3}, "max_tokens"),
    ("/v1/chat/completions", {"messages": [{**USER[0], "refusal": "no"}]}, "refusal"),
    ("/v1/completions", {}, "prompt"),
    ("/v1/completions", {"prompt": [1, 2]}, "tokens"),
    ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
    ("/v1/completions", {"prompt": "a", "best_of": 5}, "best_of"),
    ("/v1/embeddings", {"input": "a"}, "embed"),
]


@pytest.mark.parametrize(
    ("tokens", "text", "offsets"),
    [
        ([" Guten", " Morgen", "."], "Guten Morgen.", [0, 5, 12]),
        (["a", "b", "ab"], "abab", [0, 1, 2]),
        ([" Ja", ".", " Nein", "."], "Ja. Nein.", [0, 2, 3, 8]),
        ([" Ja", ".", " Nein", "."], "Ja.\nNein.", [0, 2, 4, 8]),
        (["", "x"], "x", [0, 0]),
        (["a", "a", " a"], "aa a", [0, 1, 2]),
        (["?", "a"], "a", [0, 0]),
        ([" Ja", ".", " Nein", ".", " Nein", "."], "Ja.\nNein. Nein.", [0, 2, 4, 8, 9, 14]),
    ],
)
def test_offsets_are_places_in_the_text(tokens, text, offsets):
    assert TextOffsets().next(tokens, text) == offsets


def text_of(tokens, *, ended, parts=()):
    """A text of so many tokens, which has the log-probability of its end if it has ended."""
    log_probs = [-1.0] * (tokens + ended)
    return SimpleNamespace(tokens=["x"] * tokens, token_log_probs=log_probs, parts=parts)


@pytest.mark.parametrize(
    ("tokens", "ended", "stops", "searched", "reason"),
    [
        (3, True, False, False, "stop"),
        (4, True, False, False, "stop"),
        (4, True, False, True, "length"),
        (3, True, False, True, "stop"),
        (4, False, False, False, "length"),
        (4, False, True, False, "length"),
        (3, False, False, False, "length"),
        (3, False, True, False, "stop"),
        (0, False, False, False, "stop"),
    ],
)
def test_a_text_is_cut_at_its_limit_unless_it_ends_or_a_stop_text_comes(
    tokens, ended, stops, searched, reason
):
    limit = TextLimit(most=4, stops=stops, searched=searched)
    assert limit.finish_reason(text_of(tokens, ended=ended)) == reason
    whole, cut = text_of(2, ended=True), text_of(tokens, ended=ended)
    assert limit.finish_reason(text_of(9, ended=True, parts=(whole, cut))) == reason
    assert limit.finish_reason(text_of(9, ended=True, parts=(cut, whole))) == reason


@pytest.mark.parametrize(("path", "body", "named"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_cannot_be_done_is_refused_by_name(included, path, body, named):
    answer = post(included, path, {"model": "en-de", **body})
    assert answer.status == 400
    error = answer.json["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert named in error["message"]
    assert error["type"] == "invalid_request_error"
    if error["code"] != "model_cannot":
        assert re.fullmatch(r"[a-z_]+(\[\.{3}\]|\[\d+\]|\.[a-z_]+)*", error["param"]), "a field"


@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize(
    ("path", "body"), [("/v1/completions", {"prompt": "Yes."}), ("/v1/chat/completions", {"messages": USER})]
)
def test_chunks_are_of_the_first_choice_and_have_a_usage_where_it_is_asked_for(included, path, body, usage):
    asked = {"model": "en-de", **body, "stream": True, "stream_options": {"include_usage": usage}}
    *parts, _ = post(included, path, asked).events()
    chunks = [json.loads(part) for part in parts]
    assert {choice["index"] for chunk in chunks for choice in chunk["choices"]} == {0}
    assert {"usage" in chunk for chunk in chunks} == {usage}
    assert sum(chunk.get("usage") is not None for chunk in chunks) == usage


def test_a_language_model_without_a_chat_template_refuses_chats(writer):
    with pytest.raises(openai.BadRequestError, match="no chat template"):
        writer.chat.completions.create(model="chars", messages=USER)
    with pytest.raises(openai.NotFoundError):
        writer.completions.create(model="other", prompt="a")


def test_a_wrong_key_is_the_clients_authentication_error(serving, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef01234567\n")
    url = f"{serving(api_keys=keys).url}/v1"
    with openai.OpenAI(base_url=url, api_key="wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    with openai.OpenAI(base_url=url, api_key="0123456789abcdef01234567") as client:
        assert client.models.list().data


class Tokens:
    """A tokeniser of four tokens: nothing, a space, "a", and one that is read otherwise."""

    vocab_size, texts = 4, ["", " ", "a", "bc"]

    def decode(self, ids):
        return "".join(self.texts[each] for each in ids)

    def encode(self, text):
        return {"a": [2], " bc": [1, 3]}.get(text, [1])


def controls_of(task, most=None, **fields):
    model = MadeModel()
    model.loaded = SimpleNamespace(tokenizers=SimpleNamespace(target=Tokens()))
    return openai_controls.controls_of(Sampling(model="a", **fields), most, Engine(model, Runner()), task)


def test_a_bias_bans_a_token_or_boosts_it():
    assert controls_of("generate", logit_bias={"2": -100.0, "0": -101}) == {"ban_ids": ("2", "0")}
    assert controls_of("generate", logit_bias={"2": -99.5}) == {"boost": ("a=-99.5",)}
    assert controls_of("translate", logit_bias={"2": 100.0}) == {"boost": ("a=100",)}
    for name in ("4", "-1", "x", "²", "1" * 10, ""):
        with pytest.raises(HttpProblem, match=f"logit_bias: {name} is not a token") as refused:
            controls_of("generate", logit_bias={name: 1.0})
        assert refused.value.parameter == "logit_bias"
    for name in ("0", "1", "3"):
        with pytest.raises(HttpProblem, match="is not a text of its own"):
            controls_of("generate", logit_bias={name: 1.0})


@pytest.mark.parametrize(
    ("fields", "sampled"),
    [
        ({}, {}),
        ({"temperature": 0.0}, {}),
        ({"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}, {}),
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"top_k": 1, "temperature": 1.0}, {"top_k": 1, "temperature": 1.0}),
        ({"min_p": 0.5, "top_p": 1.0}, {"min_p": 0.5, "top_p": 1.0}),
    ],
    ids=str,
)
def test_a_translation_is_sampled_if_a_field_asks_for_it_and_a_text_has_what_is_sent(fields, sampled):
    more = {"seed": 7, "stop": "."}
    searched = {"stop": (".",), "max_new_tokens": 3}
    expected = {**searched, **sampled, "sample": True, "seed": 7} if sampled else searched
    assert controls_of("translate", 3, **more, **fields) == expected
    assert controls_of("generate", 3, **more, **fields) == {**searched, "seed": 7, **fields}


def test_penalties_are_controls_and_what_is_not_sent_is_none():
    fields = {"presence_penalty": 0.0, "frequency_penalty": 1.0, "repetition_penalty": 1.5}
    assert controls_of("translate", **fields) == fields
    assert controls_of("generate", stop=["a", "b"]) == {"stop": ("a", "b")}
    assert controls_of("generate", stop=[]) == controls_of("generate") == {}
    for task in ("translate", "generate"):
        with pytest.raises(HttpProblem, match="top_p = 0 leaves no token"):
            controls_of(task, top_p=0.0)


def test_the_two_names_of_one_limit_agree():
    def most(**fields):
        return _most_tokens(ChatRequest(model="a", messages=[], **fields))

    assert most() is None
    assert (
        most(max_tokens=5)
        == most(max_completion_tokens=5)
        == most(max_tokens=5, max_completion_tokens=5)
        == 5
    )
    with pytest.raises(HttpProblem, match="differ"):
        most(max_tokens=5, max_completion_tokens=6)


def test_texts_are_one_or_several_but_no_tokens_and_not_none():
    assert _texts("a", "prompt") == ["a"]
    assert _texts(["a", ""], "prompt") == ["a", ""]
    assert _texts(None, "prompt") == [""]
    for given, message in (
        ([], "prompt is empty"),
        ([1, 2], "prompt as tokens"),
        (["a", [3]], "prompt as tokens"),
    ):
        with pytest.raises(HttpProblem, match=message) as refused:
            _texts(given, "prompt")
        assert refused.value.parameter == "prompt"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientGone(), None),
        (RunError("it has died", "ask again"), "server_error"),
        (DataError("it has died", "shorten it"), "invalid_request_error"),
    ],
)
def test_a_stream_ends_with_the_error_unless_the_client_is_gone(error, kind):
    class Fails(CompletionShape):
        def first_deltas(self):
            raise error

    async def parts():
        yield "a"

    async def events(asked, shape):
        return [each async for each in asked._events(["a"], parts(), shape)]

    asked = Asked.__new__(Asked)
    asked.body = Sampling(model="a")
    shape = Fails("a", 1, TextLimit(most=4, stops=False, searched=False), None)
    if isinstance(error, ClientGone):
        with pytest.raises(ClientGone):
            asyncio.run(events(asked, shape))
        return
    [event] = asyncio.run(events(asked, shape))
    found = json.loads(event.removeprefix(b"data: "))["error"]
    assert (found["type"], found["param"]) == (kind, None)
    assert "it has died" in found["message"]


def test_a_kind_of_completions_must_write_its_choices():
    shape = Shape("a", 1, TextLimit(most=4, stops=False, searched=False))
    for missing in (
        lambda: shape.choice(0, 0, None),
        lambda: shape.delta("a"),
        lambda: shape.last_delta("stop"),
    ):
        with pytest.raises(NotImplementedError):
            missing()
    assert shape.first_deltas() == []


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/completions", {"prompt": "a", "max_tokens": 10**6}, "max_tokens"),
        ("/v1/chat/completions", {"messages": USER, "max_tokens": 10**6}, "max_tokens"),
        ("/v1/chat/completions", {"messages": USER, "max_completion_tokens": 10**6}, "max_completion_tokens"),
    ],
)
def test_the_limit_of_tokens_has_the_name_of_its_field(included, path, body, field):
    answer = post(included, path, {"model": "en-de", **body})
    assert answer.status == 400
    assert answer.json["error"]["param"] == field
    assert answer.json["error"]["message"].startswith(f"{field} may be at most")


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/api/v1/translate"])
def test_fields_in_the_address_are_refused_where_a_body_has_them(included, path):
    answer = post(included, f"{path}?n=3", {"model": "en-de", "prompt": "a", "messages": USER, "text": "a"})
    assert answer.status == 400
    assert "no field n in the address" in answer.content.decode()
