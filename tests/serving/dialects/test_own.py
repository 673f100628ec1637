"""regard's own dialect: each answer is that of the Python call, and each mistake is named."""

import asyncio
import json
import math
import threading

import msgspec
import pytest

import regard
from regard.models.build import build_model
from regard.models.recurrent import RecurrentConfig
from regard.serving.dialects.own import _info, _unknown
from regard.serving.dialects.own_types import TranslateResponse
from regard.serving.engine import Engine
from regard.serving.limits import DEFAULT_LIMITS
from regard.serving.models import Slot
from regard.serving.service import LONG
from regard.verbs.generate import Generator
from regard.verbs.look import Looker
from regard.verbs.serve import AnswerSettings, ServedModel
from regard.verbs.translate import Translator
from regard.weights.folder import write_folder
from regard.weights.model_folder import model_files
from regard.weights.tensors import model_tensors
from tests.serving.asking import ask, post
from tests.serving.made_models import MadeModel, Runner
from tests.serving.test_scheduler import Echo

TEXTS = [
    "Where is the station?",
    "Thank you. See you tomorrow!",
    "",
    "I have 3 cats.\nAnd a dog.",
    "\n Yes. \r\n",
]


def python_keys(candidate):
    """What the Python call's JSON has of a candidate."""
    return {name: value for name, value in candidate.items() if name != "log_probs_of_tokens"}


def test_translations_are_those_of_the_python_call(included):
    expected = [each.to_dict() for each in Translator(n_best=3, threads=1).texts(TEXTS)]
    answer = post(included, "/api/v1/translate", {"text": TEXTS, "n_best": 3})
    assert answer.status == 200
    assert msgspec.convert(answer.json, TranslateResponse), "the type in the document"
    for found, wanted in zip(answer.json["translations"], expected, strict=True):
        assert [python_keys(each) for each in found["candidates"]] == wanted["hypotheses"]  # to the bit
        for each in found["candidates"]:
            assert len(each["log_probs_of_tokens"]) == len(each["tokens"])
        assert found["text"] == wanted["translation"]


def test_one_text_and_a_list_of_it_have_the_same_answer(included):
    one, several, same = (
        post(included, "/api/v1/translate", body).json
        for body in ({"text": TEXTS[0]}, {"text": TEXTS[:1]}, {"text": TEXTS[0], "n_best": 1})
    )
    assert one == several == same


def test_samples_depend_on_the_seed_and_the_place_alone(included):
    body = {"text": TEXTS, "sample": True, "temperature": 1.5, "seed": 7}
    expected = [
        each.text for each in Translator(sample=True, temperature=1.5, seed=7, threads=1).texts(TEXTS)
    ]
    for _ in range(2):
        found = post(included, "/api/v1/translate", body).json["translations"]
        assert [each["text"] for each in found] == expected


def test_placeholders_are_kept_where_that_is_asked_for(included):
    text = "Hello {{ user. Name }}, you have %d new messages. Write to info@example.com!"
    [wanted] = Translator(threads=1, keep=["placeholders"]).texts([text])
    body = {"text": text, "keep": "placeholders"}
    assert post(included, "/api/v1/translate", body).json["translations"][0]["text"] == wanted.text
    *parts, _ = post(included, "/api/v1/translate", {**body, "stream": True}).events()
    assert "".join(json.loads(part)["text"] for part in parts) == wanted.text
    none = post(included, "/api/v1/translate", {**body, "keep": "none"}).json
    assert none == post(included, "/api/v1/translate", {"text": text}).json
    assert wanted.text != none["translations"][0]["text"]


def test_a_translation_is_streamed_by_sentence(included):
    text = f"\n{TEXTS[1]}\r\n\r\n"
    answer = post(included, "/api/v1/translate", {"text": text, "stream": True})
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    *parts, done = answer.events()
    assert json.loads(done) == {"done": True, "unknown_tokens": 0}
    assert len(parts) == 2
    whole = post(included, "/api/v1/translate", {"text": text}).json["translations"][0]["text"]
    assert "".join(json.loads(part)["text"] for part in parts) == whole
    assert whole.startswith("\n")
    assert whole.endswith("\r\n\r\n")


def test_continuations_are_those_of_the_python_call(generating, decoder_folder):
    prompts = ["To be", "that is", "Ärger"]
    body = {"prompt": prompts, "num": 2, "temperature": 0.8, "seed": 3, "max_new_tokens": 12}
    folder = generating.service.models.default.path
    generator = Generator(folder, num=2, temperature=0.8, seed=3, max_new_tokens=12)
    found = post(generating, "/api/v1/generate", body).json["results"]
    for each, wanted in zip(found, generator(prompts), strict=True):
        assert [python_keys(one) for one in each["continuations"]] == wanted.to_dict()["continuations"]


def test_the_tokens_of_continuations_are_in_the_log(generating):
    body = {"prompt": ["To be", "that"], "num": 2, "max_new_tokens": 5}
    answer = post(generating, "/api/v1/generate", body, headers={"X-Request-Id": "four-continuations"})
    logged = json.loads(generating.log.wait_for('"four-continuations"'))
    tokens = [one["tokens"] for each in answer.json["results"] for one in each["continuations"]]
    assert logged["output_tokens"] == sum(map(len, tokens)) > 0


def test_a_chat_is_that_of_the_python_call(talking):
    chat = Generator(talking.service.models.default.path, chat=True, system="that is", seed=3)
    body = {"prompt": ["To be", "nobler"], "chat": True, "system": "that is", "seed": 3}
    found = post(talking, "/api/v1/generate", body).json["results"]
    wanted = [each.to_dict()["continuations"] for each in chat(body["prompt"])]
    assert [[python_keys(one) for one in each["continuations"]] for each in found] == wanted
    streamed = post(talking, "/api/v1/generate", {**body, "prompt": "To be", "stream": True}).events()
    assert "".join(json.loads(part)["text"] for part in streamed[:-1]) == wanted[0][0]["text"]


def test_a_chat_needs_a_template_and_a_system_message_a_chat(generating, talking):
    refused = post(generating, "/api/v1/generate", {"prompt": "To be", "chat": True})
    assert (refused.status, "has no chat template" in str(refused.json)) == (400, True)
    refused = post(talking, "/api/v1/generate", {"prompt": "To be", "system": "x"})
    assert (refused.status, "system is for a chat" in str(refused.json)) == (400, True)


def test_too_many_messages_are_refused_before_the_template_renders_them(talking, monkeypatch):
    monkeypatch.setattr(ServedModel, "rendered", None)
    body = {"prompt": ["a"] * (talking.service.limits.texts + 1), "chat": True}
    assert post(talking, "/api/v1/generate", body).status == 413


def test_a_streamed_continuation_is_the_whole_one(generating):
    body = {"prompt": "To be", "seed": 5, "min_new_tokens": 20, "max_new_tokens": 20}
    whole = post(generating, "/api/v1/generate", body).json["results"][0]["continuations"][0]["text"]
    *parts, _ = post(generating, "/api/v1/generate", {**body, "stream": True}).events()
    assert "".join(json.loads(part)["text"] for part in parts) == whole
    assert len(parts) > 5


def test_vectors_and_classes_and_scores_are_those_of_the_python_calls(serving, encoder_folder, untrained):
    classes = encoder_folder("classification", ("bad", "good", "mixed"))
    server = serving({"classes": classes, "digits": untrained})
    texts = ["a good film .", "the cat sat on the mat", ""]
    vectors = post(server, "/api/v1/embed", {"text": texts}).json["vectors"]
    for found, wanted in zip(vectors, regard.embed(texts, model=classes), strict=True):
        assert found == pytest.approx(wanted.tolist(), abs=1e-6)
    found = post(server, "/api/v1/classify", {"text": texts, "top": 3}).json["results"]
    wanted = regard.classify(texts, model=classes, top=3)
    assert [[each["label"] for each in one["classes"]] for one in found] == [
        [label for label, _ in each or []] for each in wanted
    ]
    [one] = post(server, "/api/v1/classify", {"text": texts[0]}).json["results"]
    assert one["classes"] == found[0]["classes"][:1]
    body = {"text": ["1 2 3", "4"], "translation": ["1 2 3", "5"], "model": "digits"}
    scores = post(server, "/api/v1/score", body).json["scores"]
    assert all(math.isclose(each["log_prob"], sum(each["token_log_probs"]), rel_tol=1e-6) for each in scores)
    refused = post(server, "/api/v1/score", {**body, "translation": ["1 2 3"]})
    assert (refused.status, refused.json["parameter"]) == (400, "translation")


def test_labels_of_words_and_masked_tokens_are_those_of_the_python_calls(serving, encoder_folder):
    tagger, masked = encoder_folder("tokens", ("A", "B")), encoder_folder("masked_language_model")
    server = serving({"tags": tagger, "masks": masked})
    texts = ["the cat sat.", "", "a \u2603 film"]
    found = post(server, "/api/v1/tag", {"text": texts}).json["results"]
    for one, text in zip(found, texts, strict=True):
        assert [(each["word"], each["label"]) for each in one["words"]] == regard.tag(text, model=tagger)
        assert all(0 < each["probability"] <= 1 for each in one["words"])
    assert [each["unknown_tokens"] for each in found] == [0, 0, 1]
    [one] = post(server, "/api/v1/tag", {"text": texts[0], "words": True}).json["results"]
    assert [each["word"] for each in one["words"]] == ["the", "cat", "sat."]
    texts = ["the [MASK] sat on the <mask>", "", "a \u2603 [MASK]"]
    found = post(server, "/api/v1/fill", {"text": texts, "top": 2}).json["results"]
    for one, wanted in zip(found, regard.fill(texts, model=masked, top=2), strict=True):
        assert [[each["token"] for each in guesses] for guesses in one["masks"]] == [
            [token for token, _ in guesses] for guesses in wanted
        ]
    assert [each["unknown_tokens"] for each in found] == [0, 0, 1]


def test_a_text_without_a_mask_is_refused_by_its_number(serving, encoder_folder):
    server = serving({"masks": encoder_folder("masked_language_model")})
    answer = post(server, "/api/v1/fill", {"text": ["a [MASK]", "a film"]})
    assert (answer.status, answer.json["error"]) == (400, "text 2 has no masked token")
    assert "[MASK]" in answer.json["hint"]
    refused = post(server, "/api/v1/tag", {"text": "a film"})
    assert refused.json["error"] == "this model does not tag"


def test_a_request_has_few_masked_tokens(serving, encoder_folder):
    server, most = serving({"masks": encoder_folder("masked_language_model")}), DEFAULT_LIMITS.masks
    answer = post(server, "/api/v1/fill", {"text": ["[MASK]" * most, "a <mask>"]})
    assert (answer.status, answer.json["error"]) == (
        413,
        f"the request has {most + 1} masked tokens, but may have {most}",
    )


def test_models_are_listed(included):
    [model] = ask(included, "GET", "/api/v1/models").json["models"]
    assert (model["name"], model["tasks"]) == ("en-de", ["translate", "score"])
    assert (model["source_language"], model["target_language"]) == ("en", "de")
    assert (model["loaded"], model["kind"], model["aligns"]) == (True, "encoder_decoder", True)
    assert model["parameters_bytes"] == included.service.models.default.engine.model.bytes
    assert model["look"] == "/look/en-de/"


def test_a_model_that_is_not_loaded_is_listed_by_its_name_alone():
    info = _info(Slot(name="chat", path=None), looks=False)
    assert (info.name, info.loaded, info.tasks) == ("chat", False, [])
    assert (info.kind, info.parameters_bytes, info.aligns, info.look) == (None, None, None, None)
    assert (info.source_language, info.target_language) == (None, None)
    assert _info(Slot(name="chat", path=None), looks=True).look == "/look/chat/"


MISTAKES = [
    ({}, 400, "text"),
    ({"text": 3}, 400, "text"),
    ({"text": ["a", None]}, 400, "text"),
    ({"text": "a", "beam": 3}, 400, "beam"),
    ({"text": "a", "beam_size": "3"}, 400, "beam_size"),
    ({"text": "a", "beam_size": 1000}, 400, "beam_size"),
    ({"text": "a", "n_best": 0}, 400, "n_best"),
    ({"text": "a", "n_best": 10**9}, 400, "n_best"),
    ({"text": "a", "top_k": 4}, 400, "top_k"),
    ({"text": "a", "draft_model": "/etc"}, 400, "draft_model"),
    ({"text": "a", "boost": ["x"]}, 400, "boost"),
    ({"text": "a", "end_ids": [10**6]}, 400, "end_ids"),
    ({"text": "a", "keep": "(a+)+$"}, 400, "keep"),  # an expression can take hours
    ({"text": "a", "keep": "placeholders", "must_contain": ["b"]}, 400, "do not go together"),
    ({"text": "a", "model": "no-such"}, 404, "no-such"),
    ({"text": "a", "prefix": ">>xxx<<"}, 400, "xxx"),
    ({"text": ["a"] * 200}, 413, "200"),
    ({"text": "a" * 100_001}, 413, "100,001"),
    ({"text": "word " * 3000}, 400, "longer"),
    ({"text": ["a", "b"], "stream": True}, 400, "stream is for one text"),
    ({"text": "a", "n_best": 2, "stream": True}, 400, "stream is for one answer"),
]


@pytest.mark.parametrize(("body", "status", "named"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_named(included, body, status, named):
    answer = post(included, "/api/v1/translate", body)
    assert answer.status == status
    assert set(answer.json) == {"error", "hint", "parameter", "request_id"}
    assert named in answer.json["error"]


BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'{"text":"\xff"}',
    b'{"text":"\\ud800"}',
    b'{"text": NaN}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("raw", BODIES, ids=lambda raw: repr(raw[:20]))
def test_a_body_that_is_no_such_json_is_refused(included, raw):
    answer = ask(included, "POST", "/api/v1/translate", raw=raw)
    assert answer.status == 400
    assert "error" in answer.json


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/translate", {"text": "Hi\0 you."}),
        ("/api/v1/translate", {"text": "Hi\0 you.", "stream": True}),
        ("/translate", {"q": ["Hi\0 you."], "source": "en", "target": "de"}),
        ("/detect", {"q": "Hi\0 you."}),
        ("/v2/translate", {"text": ["Hi\0 you."], "target_lang": "DE"}),
        ("/v1/chat/completions", {"model": "en-de", "messages": [{"role": "user", "content": "Hi\0 you."}]}),
    ],
)
def test_a_nul_is_refused_in_each_dialect(included, path, body):
    answer = post(included, path, body)
    assert answer.status == 400
    assert b"character 3 of a text is a NUL" in answer.content


def test_another_content_type_is_refused(included):
    headers = {"Content-Type": "text/plain"}
    assert ask(included, "POST", "/api/v1/translate", raw=b'{"text": "a"}', headers=headers).status == 415


def test_unknown_paths_and_methods_are_refused(included):
    assert ask(included, "GET", "/api/v1/nothing").status == 404
    refused = ask(included, "DELETE", "/api/v1/translate")
    assert (refused.status, refused.json["hint"]) == (405, "use POST")


def test_a_model_without_the_task_says_what_it_does(included):
    answer = post(included, "/api/v1/generate", {"prompt": "a"})
    assert answer.status == 400
    assert answer.json["hint"] == "it can translate and score"


def test_odd_characters_are_translated(included):
    texts = ["\u202eabc", "\u2028", "👩‍👩‍👧", "é", "\ufeff x"]
    assert post(included, "/api/v1/translate", {"text": texts}).status == 200


def test_alignments_change_nothing_else_and_are_those_of_each_sentence(included):
    sentences = ["Where is the station?", "I have three cats and a dog."]
    body = {"text": " ".join(sentences), "n_best": 2}
    plain = post(included, "/api/v1/translate", body).json
    found = post(included, "/api/v1/translate", {**body, "alignments": True}).json
    of_sentences = [
        post(included, "/api/v1/translate", {**body, "text": each, "alignments": True}).json
        for each in sentences
    ]
    one, other = (each["translations"][0]["candidates"][0] for each in of_sentences)
    alignment = found["translations"][0]["candidates"][0]["alignment"]
    sources, targets = one["alignment"]["source_tokens"], one["tokens"]
    assert alignment["source_tokens"] == sources + other["alignment"]["source_tokens"]
    moved = [[i + len(sources), j + len(targets)] for i, j in other["alignment"]["links"]]
    assert alignment["links"] == one["alignment"]["links"] + moved
    for each in found["translations"][0]["candidates"]:
        assert {j for _, j in each["alignment"]["links"]} <= set(range(len(each["tokens"])))
        del each["alignment"]
    assert found == plain


def test_alignments_are_those_of_regard_look(included):
    [translation] = post(
        included, "/api/v1/translate", {"text": "Where is the station?", "alignments": True}
    ).json["translations"]
    summary = Looker().look("Where is the station?").summary
    assert translation["text"] == summary["answer"]["text"]
    found = sorted(map(tuple, translation["candidates"][0]["alignment"]["links"]))
    assert found == sorted(map(tuple, summary["alignment"]["pairs"]))


def test_alignments_of_an_empty_text_are_empty_and_streams_have_none(included):
    answer = post(included, "/api/v1/translate", {"text": " ", "alignments": True}).json
    assert answer["translations"][0]["candidates"][0]["alignment"] == {"source_tokens": [], "links": []}
    refused = post(included, "/api/v1/translate", {"text": "a", "alignments": True, "stream": True})
    assert (refused.status, refused.json["parameter"]) == (400, "alignments")


@pytest.fixture
def without_attention(untrained, tmp_path):
    """As `untrained`, but a recurrent model that reads its source as one vector."""
    loaded = regard.load(untrained)
    size = loaded.tokenizers.source.vocab_size
    config = RecurrentConfig(src_vocab_size=size, tgt_vocab_size=size, d_model=8, d_embedding=8)
    files = model_files(
        config,
        (),
        {**loaded.tokenizers.files(), "generation.json": b'{"beam_size": 2, "max_length": 12}'},
        'name = "recurrent"\n',
    )
    weights = model_tensors(build_model(config, seed=3))
    write_folder(tmp_path / "model", {**files, "model.safetensors": weights, "README.md": b"# it\n"})
    return tmp_path / "model"


def test_a_model_without_attention_to_its_source_refuses_alignments(serving, without_attention):
    server = serving({"plain": without_attention})
    assert post(server, "/api/v1/translate", {"text": "1"}).status == 200
    refused = post(server, "/api/v1/translate", {"text": "1", "alignments": True})
    assert (refused.status, refused.json["parameter"]) == (400, "alignments")
    assert ask(server, "GET", "/api/v1/models").json["models"][0]["aligns"] is False


def test_an_answer_says_how_many_tokens_of_its_text_are_unknown(
    included, generating, serving, encoder_folder
):
    """The commands warn of them on a terminal."""
    texts = ["Thank you.", "Thank you. 東京 is a city. Ψ", ""]
    source = regard.load().tokenizers.source
    wanted = [source.encode(text).count(source.unk_id) for text in texts]
    assert (wanted[0], wanted[2], wanted[1] > 1) == (0, 0, True)

    def unknown(server, verb, name, **body):
        found = post(server, f"/api/v1/{verb}", body).json[name]
        return [each["unknown_tokens"] for each in found]

    for split in ("auto", "off"):
        assert unknown(included, "translate", "translations", text=texts, split=split) == wanted
    assert unknown(included, "score", "scores", text=texts, translation=["Ja."] * 3) == wanted
    assert unknown(included, "score", "scores", text=["Yes."], translation=texts[1:2])[0] > 0
    for text, number in zip(texts, wanted, strict=True):
        events = post(included, "/api/v1/translate", {"text": text, "stream": True}).events()
        assert json.loads(events[-1]) == {"done": True, "unknown_tokens": number}
    prompts = ["To be", "To ☃☃ be"]
    assert unknown(generating, "generate", "results", prompt=prompts, max_new_tokens=2) == [0, 2]
    body = {"prompt": prompts[1], "max_new_tokens": 2, "stream": True}
    last = post(generating, "/api/v1/generate", body).events()[-1]
    assert json.loads(last) == {"done": True, "unknown_tokens": 2}
    server = serving({"vectors": encoder_folder("classification", ("a", "b"))})
    films = ["a good film .", "a ☃ film ."]
    assert unknown(server, "classify", "results", text=films) == [0, 1]
    assert post(server, "/api/v1/embed", {"text": films}).json["unknown_tokens"] == [0, 1]


@pytest.mark.parametrize(("length", "here"), [(LONG - 1, True), (LONG, False)])
def test_unknown_tokens_of_long_texts_are_counted_in_a_thread(length, here):
    threads = []

    class Counting(Echo):
        def count_unknown(self, piece):
            threads.append(threading.current_thread() is threading.main_thread())
            return 2

    engine, texts = Engine(MadeModel(Counting()), Runner()), [["x"], ["x" * (length - 2), "x"]]
    assert asyncio.run(_unknown(engine, AnswerSettings(task="embed"), texts)) == [2, 4]
    assert threads == [here] * 3
