"""The core that all dialects call: how much a request may have, and which model answers it."""

import asyncio
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regard.errors import DataError, RunError
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.limits import ServerLimits
from regard.serving.scheduler import Closed, DeadlinePassed, Scheduler
from regard.serving.service import GRACE, LONG, TRIES, _begun, _in_time, _pieces, length_of
from regard.verbs.serve import AnswerSettings, TranslationAnswerer
from tests.serving.made_models import MadeModel, Runner, request_of, service_with
from tests.serving.test_scheduler import Echo

EMBED = AnswerSettings(task="embed")


class Pieces(Echo):
    """A piece for each word; the answer has them in order."""

    def pieces(self, texts):
        return [text.split() for text in texts]

    def joined(self, text, pieces, answers):
        return (text, list(pieces), list(answers))


class Closing(Runner):
    """Is being replaced for the first requests, and answers the others with their pieces."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def submit(self, job):
        super().submit(job)
        if len(self.jobs) <= self.times:
            raise Closed
        for place, piece in zip(job.places, job.pieces, strict=True):
            job.answered(place, piece)
        job.started = time.monotonic()
        job.finished(None)


def test_a_request_may_have_as_many_texts_and_characters_as_the_limits_say():
    service = service_with({"a": None}, ServerLimits(texts=3, characters=10))
    service.check_texts(["12345", "67890", ""])
    service.check_texts([("123", "45"), "67890"])
    service.check_texts([])
    for texts, named in (
        ([""] * 4, "4 texts, but may have 3"),
        (["12345", "678901"], "11 characters, but may have 10"),
        ([("123", "45"), "678901"], "11 characters"),
    ):
        with pytest.raises(HttpProblem, match=named) as refused:
            service.check_texts(texts)
        assert refused.value.status == 413
    assert (length_of("abc"), length_of(("ab", "cde"))) == (3, 5)


@pytest.mark.parametrize(
    ("texts", "place"), [(["a", "b\0c"], 2), ([("a", "b\0")], 2), ([("b\0", "c")], 2), (["\0"], 1)]
)
def test_a_text_with_a_nul_is_refused_for_no_model_has_learnt_one(texts, place):
    with pytest.raises(HttpProblem, match=f"character {place} of a text is a NUL") as refused:
        service_with({}).check_texts(texts)
    assert refused.value.status == 400


def test_without_a_name_the_first_loaded_model_with_the_task_answers():
    engines = {
        "lazy": None,
        "embeds": Engine(MadeModel(tasks=("embed",)), Runner()),
        "writes": Engine(MadeModel(tasks=("generate",)), Runner()),
        "also": Engine(MadeModel(tasks=("generate",)), Runner()),
    }
    service = service_with(engines)
    found = [service.slot(None, task).name for task in ("embed", "generate", "score", None)]
    assert found == ["embeds", "writes", "lazy", "lazy"]
    assert service.slot("embeds", "generate").name == "embeds"


def test_a_server_is_ready_when_it_has_started_until_it_ends():
    service = service_with({"a": None})
    assert not service.ready
    service.loaded = True
    assert service.ready
    service.draining = True
    assert not service.ready


def test_texts_are_answered_from_their_pieces_in_order_and_the_wait_is_counted():
    scheduler = Scheduler()
    engine = Engine(MadeModel(Pieces()), scheduler)
    service, request = service_with({"a": engine}), request_of()
    texts = ["one two three", "", "four"]
    found = asyncio.run(service.answer(request, service.slot("a"), EMBED, texts))
    scheduler.close(wait=True)
    assert found.answers == [(text, text.split(), text.split()) for text in texts]
    assert (found.engine, found.slot.name) == (engine, "a")
    assert (request.model, request.texts) == ("a", texts)
    assert 0 <= request.queue_seconds < 10
    count = service.metrics.registry.get_sample_value("regard_queue_seconds_count", {"model": "a"})
    assert count == 1.0


@pytest.mark.parametrize("times", range(TRIES + 1))
def test_a_request_whose_model_is_replaced_is_tried_again_a_few_times(times):
    runner = Closing(times)
    service = service_with({"a": Engine(MadeModel(Pieces()), runner)})
    answered = service.answer(request_of(), service.slot("a"), EMBED, ["one"])
    if times < TRIES:
        assert asyncio.run(answered).answers == [("one", ["one"], ["one"])]
    else:
        with pytest.raises(Closed):
            asyncio.run(answered)
    assert len(runner.jobs) == min(times + 1, TRIES)


def test_a_request_that_nobody_answers_ends_after_its_deadline(monkeypatch):
    monkeypatch.setattr("regard.serving.service.GRACE", 0.02)
    runner = Runner()
    service = service_with({"a": Engine(MadeModel(Pieces()), runner)})
    request = request_of(headers={"X-Timeout": "0"})
    with pytest.raises(DeadlinePassed):
        asyncio.run(service.answer(request, service.slot("a"), EMBED, ["one"]))
    assert runner.calls == ["cancel"], "nobody waits for it any more"
    assert runner.jobs[0].deadline == request.begun
    assert (request.queue_seconds, GRACE > 1) == (None, True)


class Parting(Runner):
    """Calls a job's functions in this order: (name, arguments)."""

    def __init__(self, *events, closed=0):
        super().__init__()
        self.events, self.closed = events, closed

    def submit(self, job):
        super().submit(job)
        if len(self.jobs) <= self.closed:
            raise Closed
        job.started = time.monotonic()
        for name, *arguments in self.events:
            getattr(job, name)(*arguments)


class Sentences(Pieces):
    """An answer has the text of its pieces' answers."""

    def joined(self, text, pieces, answers):
        return SimpleNamespace(text=" ".join(each.text for each in answers))


def sentence(text):
    tokens = tuple(text.split())
    candidate = SimpleNamespace(tokens=tokens, log_probs_of_tokens=(-1.0,) * len(tokens), alternatives=())
    return SimpleNamespace(text=text, candidates=[candidate])


def streamed(runner, task, text="one two", alternatives=None):
    """The request, the parts of its answer, and the service."""
    model = MadeModel(Sentences())
    model.made.settings = replace(EMBED, alternatives=alternatives)
    service, request = service_with({"a": Engine(model, runner)}, ServerLimits(characters=10)), request_of()

    async def main():
        parts = await service.parts(request, service.slot("a"), AnswerSettings(task=task), text)
        assert 0 <= request.first_part_seconds < 10
        return [part async for part in parts]

    return request, asyncio.run(main()), service


def test_a_text_is_streamed_as_it_is_known_and_counted_like_another():
    answer = SimpleNamespace(continuations=[SimpleNamespace(tokens=("a", "b", "c"))])
    runner = Parting(("part", "ab"), ("part", "c"), ("answered", 0, answer), ("finished", None))
    request, parts, service = streamed(runner, "generate")
    assert parts == ["ab", "c"]
    assert (request.output_tokens, request.model, request.texts) == (3, "a", ["one two"])
    assert request.queue_seconds is not None
    assert runner.calls == ["cancel"]
    assert (list(runner.jobs[0].pieces), runner.jobs[0].in_parts) == (["one two"], True)
    count = service.metrics.registry.get_sample_value("regard_first_part_seconds_count", {"model": "a"})
    assert count == 1.0


@pytest.mark.parametrize(
    ("order", "parts"),
    [([0, 1, 2], ["A", " B C", " D"]), ([1, 0, 2], ["A B C", " D"]), ([2, 1, 0], ["A B C D"])],
)
def test_sentences_are_streamed_in_order_whichever_is_known_first(order, parts):
    texts = ["A", "B C", "D"]
    events = [("answered", place, sentence(texts[place])) for place in order]
    request, found, _ = streamed(Parting(*events, ("finished", None)), "translate", "a b c")
    assert found == parts
    assert request.output_tokens == 4


def test_sentences_with_their_tokens_come_in_order_and_nothing_before_the_first_is_known():
    events = [("answered", place, sentence(text)) for place, text in ((1, "B C"), (0, "A"))]
    runner = Parting(*events, ("finished", None))
    _, found, _ = streamed(runner, "translate", "a b", alternatives=0)
    assert [(part, [each.token for each in part.tokens]) for part in found] == [("A B C", ["A", "B", "C"])]
    assert runner.calls == ["cancel"]


class Required(TranslationAnswerer):
    """Translates a text as one piece."""

    def __init__(self):
        self.settings = EMBED

    def pieces(self, texts):
        return [[text] for text in texts]

    def requiring(self, texts):
        return self.settings

    def joined(self, text, pieces, answers):
        return answers[0]


def test_an_answer_without_a_text_that_it_must_have_is_refused():
    answer = SimpleNamespace(text="Das Haus.")
    runner = Parting(("answered", 0, answer), ("finished", None))
    service = service_with({"a": Engine(MadeModel(Required()), runner)})

    def answered(word):
        call = service.answer(request_of(), service.slot("a"), EMBED, ["A house."], lambda piece: ((word,),))
        return asyncio.run(call).answers

    assert answered("Haus") == [answer]
    with pytest.raises(HttpProblem, match="no translation of a sentence with 'Hund'"):
        answered("Hund")


@pytest.mark.parametrize("task", ["generate", "translate"])
def test_a_stream_is_refused_before_its_first_part_and_ends_with_a_later_error(task):
    with pytest.raises(HttpProblem, match="11 characters, but may have 10") as refused:
        streamed(Parting(), task, "x" * 11)
    assert refused.value.status == 413
    part = ("part", "a") if task == "generate" else ("answered", 0, sentence("a"))
    for events in ([("finished", ValueError("x"))], [part, ("finished", ValueError("x"))]):
        with pytest.raises(RunError, match="the model failed: ValueError"):
            streamed(Parting(*events), task)
    _, parts, _ = streamed(Parting(part, ("finished", None), closed=TRIES - 1), task)
    assert parts == ["a"]
    with pytest.raises(Closed):
        streamed(Parting(part, ("finished", None), closed=TRIES), task)


def collected(parts):
    async def main():
        return [part async for part in await _begun(parts)]

    return asyncio.run(main())


def test_an_error_comes_before_the_first_part_and_parts_are_closed_at_the_end():
    closed = []

    async def parts(*given, error=None):
        try:
            for each in given:
                yield each
            if error:
                raise error
        finally:
            closed.append(given)

    assert collected(parts()) == []
    assert collected(parts("a", "b")) == ["a", "b"]
    with pytest.raises(DataError):
        asyncio.run(_begun(parts(error=DataError("a", "b"))))

    async def left():
        async for _ in (begun := await _begun(parts("c", "d"))):
            break
        await begun.aclose()

    asyncio.run(left())
    assert closed == [(), ("a", "b"), (), ("c", "d")]


@pytest.mark.parametrize(("left", "seconds"), [(7.0, 7.0 + GRACE), (-7.0, GRACE)])
def test_an_answer_is_waited_for_until_some_seconds_after_the_deadline(monkeypatch, left, seconds):
    given, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda delay: given.append(delay) or timeout(delay))

    async def answer():
        return "a"

    assert asyncio.run(_in_time(request_of(), time.monotonic() + left, answer())) == "a"
    assert given == [pytest.approx(seconds, abs=0.5)]


@pytest.mark.parametrize(("length", "here"), [(LONG - 1, True), (LONG, False)])
def test_long_texts_are_split_in_a_thread(length, here):
    threads = []

    class Splits(Pieces):
        def pieces(self, texts):
            threads.append(threading.current_thread() is threading.main_thread())
            return super().pieces(texts)

    assert asyncio.run(_pieces(Splits(), ["x", "x" * (length - 1)])) == [["x"], ["x" * (length - 1)]]
    assert threads == [here]
