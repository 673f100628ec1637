"""The log-probabilities of OpenAI's dialect: of the taken tokens, and of the most probable ones."""

import openai
import pytest
import torch

from regard.verbs.load import load
from tests.serving.asking import post

TEXT = "Thank you. See you tomorrow!"
ASKED = [
    {"temperature": 0},
    {"temperature": 0, "repetition_penalty": 1.5},
    {"seed": 3, "temperature": 0.8, "top_p": 0.9},
    {"seed": 3, "presence_penalty": 1.0},
]


def completion(server, **fields):
    """The first choice of a completion, of which a stream's parts are joined."""
    body = {"model": "chars", "prompt": "To be", "max_tokens": 12, **fields}
    if not fields.get("stream"):
        return post(server, "/v1/completions", body).json["choices"][0]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        known = {name: value for name, value in body.items() if name != "repetition_penalty"}
        more = {name: value for name, value in body.items() if name == "repetition_penalty"}
        chunks = list(client.completions.create(**known, extra_body=more))
    joined = {}
    for each in (chunk.choices[0].logprobs for chunk in chunks):
        for name, values in [] if each is None else each.to_dict().items():
            joined[name] = joined.get(name, []) + (values or [])
    return {"text": "".join(chunk.choices[0].text for chunk in chunks), "logprobs": joined}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_the_most_probable_tokens_are_those_of_the_model_itself(generating, asked):
    """Neither penalties nor filters change them."""
    loaded = load(generating.service.models.default.path)
    tokenizer = loaded.tokenizers.target
    found = completion(generating, logprobs=5, **asked)
    [prompt] = [tokenizer.encode("To be")]
    ids = [tokenizer.vocabulary()[token] for token in found["logprobs"]["tokens"]]
    begun = [tokenizer.bos_id, *prompt, *ids]
    with torch.no_grad():
        log_probs = loaded.model(torch.tensor([begun])).log_softmax(dim=-1)[0, len(prompt) : -1]
    assert len(ids) == len(log_probs) == len(found["logprobs"]["top_logprobs"])
    rows = zip(log_probs, found["logprobs"]["top_logprobs"], ids, strict=True)
    for row, (wanted, top, taken) in enumerate(rows):
        names = tokenizer.tokens([*wanted.topk(5).indices.tolist(), taken])
        assert list(top) == list(dict.fromkeys(names))
        assert [*top.values()][:5] == pytest.approx(wanted.topk(5).values.tolist(), abs=1e-4)
        assert top[found["logprobs"]["tokens"][row]] == found["logprobs"]["token_logprobs"][row]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_asking_for_them_changes_nothing_else(generating, asked):
    plain, scored = completion(generating, **asked), completion(generating, logprobs=5, **asked)
    taken = completion(generating, logprobs=0, **asked)["logprobs"]
    assert (plain["text"], plain["logprobs"]) == (scored["text"], None)
    assert taken == {**scored["logprobs"], "top_logprobs": None}


@pytest.mark.parametrize("logprobs", [0, 5])
@pytest.mark.parametrize("more", [{}, {"stop": "e"}], ids=str)
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_streamed_completion_has_those_of_the_whole_one(generating, asked, more, logprobs):
    whole = completion(generating, logprobs=logprobs, **asked, **more)
    streamed = completion(generating, logprobs=logprobs, stream=True, **asked, **more)
    assert streamed["text"] == whole["text"]
    if logprobs == 0:
        whole["logprobs"]["top_logprobs"] = []
    assert streamed["logprobs"] == whole["logprobs"]


def chat(server, **fields):
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, _strict_response_validation=True
    ) as client:
        found = client.chat.completions.create(
            messages=[{"role": "user", "content": TEXT}], logprobs=True, **fields
        )
        return list(found) if fields.get("stream") else found


@pytest.mark.parametrize("model", ["en-de", "chat"])
@pytest.mark.parametrize("top", [None, 0, 20])
def test_a_chat_has_them_whole_and_streamed(included, talking, model, top):
    server = included if model == "en-de" else talking
    asked = {"model": model, "max_tokens": 20} | ({} if top is None else {"top_logprobs": top})
    whole = chat(server, **asked).choices[0]
    parts = [chunk.choices[0].logprobs for chunk in chat(server, stream=True, **asked)]
    streamed = [each for part in parts if part is not None for each in part.content]
    assert [each.to_dict() for each in streamed] == [each.to_dict() for each in whole.logprobs.content]
    for each in whole.logprobs.content:
        values = [one.logprob for one in each.top_logprobs]
        assert (len(values), values) == (top or 0, sorted(values, reverse=True))
        assert all(bytes(one.bytes).decode() == one.token for one in each.top_logprobs)
        same = [one.logprob for one in each.top_logprobs if one.token == each.token]
        assert same in ([], [each.logprob])


def test_a_beam_has_them_too(included):
    """Of each hypothesis that is returned, at each of its own steps."""
    body = {"model": "en-de", "messages": [{"role": "user", "content": TEXT}], "n": 3, "logprobs": True}
    plain = post(included, "/v1/chat/completions", body).json["choices"]
    scored = post(included, "/v1/chat/completions", {**body, "top_logprobs": 2}).json["choices"]
    assert len(scored) == 3
    for one, other in zip(plain, scored, strict=True):
        assert one["message"] == other["message"]
        for bare, token in zip(one["logprobs"]["content"], other["logprobs"]["content"], strict=True):
            assert len(token["top_logprobs"]) == 2
            assert {**token, "top_logprobs": []} == bare


def test_a_search_that_does_not_record_them_is_refused_by_name(serving, decoder_folder):
    folder = decoder_folder(decoding={"beam_size": 4, "beam_groups": 2, "diversity": 0.5})
    server = serving({"groups": folder})
    body = {"model": "groups", "prompt": "To be", "max_tokens": 3}
    assert post(server, "/v1/completions", {**body, "logprobs": 0}).status == 200
    refused = post(server, "/v1/completions", {**body, "logprobs": 1})
    assert (refused.status, refused.json["error"]["param"]) == (400, "logprobs")
    assert "this search records no other" in refused.json["error"]["message"]


def test_proposed_tokens_have_those_of_the_tokens_taken_in_a_stream(serving, decoder_folder):
    server = serving({"chars": decoder_folder(decoding={"prompt_lookup": 3, "temperature": 0.5})})
    whole = completion(server, logprobs=0)["logprobs"]
    assert completion(server, logprobs=0, stream=True)["logprobs"] == {**whole, "top_logprobs": []}


def test_top_logprobs_without_logprobs_are_refused(included):
    body = {"model": "en-de", "messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}
    for more in ({}, {"logprobs": False}):
        refused = post(included, "/v1/chat/completions", {**body, **more})
        assert (refused.status, refused.json["error"]["param"]) == (400, "top_logprobs")
