"""The parts of a request: which pieces go together, what they require, and how many run at once."""

import asyncio
import gc
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regard.errors import RunError
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.request_parts import (
    AT_ONCE,
    PartJob,
    RequestPart,
    all_of,
    call_in,
    parts_of,
    refuse_missing,
)
from regard.verbs.serve import AnswerSettings, TranslationAnswerer
from tests.serving.made_models import MadeModel, Runner
from tests.serving.test_scheduler import Echo


class Requiring(TranslationAnswerer):
    """Its settings say what they require."""

    def __init__(self, settings):
        self.settings = settings

    def requiring(self, texts):
        return replace(self.settings, prefix=repr(texts))


class Requirable(MadeModel):
    def answerer(self, settings):
        return Requiring(settings)


def test_a_request_is_one_part_unless_its_pieces_require_different_texts():
    answerer = Requiring(AnswerSettings(task="translate"))
    assert parts_of(Requirable(), answerer, [], None) == []
    assert parts_of(Requirable(), answerer, [], lambda piece: ()) == []
    [part] = parts_of(Requirable(), answerer, ["a", "b"], None)
    assert (part.answerer, part.pieces, part.places, part.required) == (answerer, ["a", "b"], [0, 1], ())
    house, cat = (("Haus", "haus"),), (("Katze",),)
    needs = {"one": house, "two": (), "three": house, "four": cat}
    parts = parts_of(Requirable(), answerer, list(needs), needs.get)
    assert [(each.pieces, each.places, each.required) for each in parts] == [
        (["one", "three"], [0, 2], house),
        (["two"], [1], ()),
        (["four"], [3], cat),
    ]
    assert [each.answerer.settings.prefix for each in parts] == [repr(house), "()", repr(cat)]


def part(required, places):
    return RequestPart(answerer=Echo(), pieces=["x"] * len(places), places=places, required=required)


def test_a_translation_must_have_one_form_of_each_text():
    found = [SimpleNamespace(text=text) for text in ("Das Haus.", "nothing", "Ein Haus, eine Ｋａｔｚｅ")]
    required = (("Hund", "Haus"), ("Kat ze",))
    refuse_missing([part(required[:1], [0, 2]), part((), [1]), part(required, [2])], found)
    for place in (0, 1):
        with pytest.raises(HttpProblem, match="no translation of a sentence with 'Kat ze'") as caught:
            refuse_missing([part((), [1]), part(required[1:], [2, place])], found)
    assert (caught.value.status, caught.value.code) == (400, "model_cannot")


def test_so_many_run_at_a_time_and_all_of_them_run():
    running, most, done = [], [], []

    async def work():
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0)
        running.pop()
        done.append(1)

    asyncio.run(all_of([work] * (AT_ONCE + 5)))
    assert (max(most), len(done)) == (AT_ONCE, AT_ONCE + 5)
    for number in range(3):
        done.clear()
        asyncio.run(all_of([work] * number))
        assert len(done) == number


def test_the_first_error_ends_the_others():
    ended = []

    async def waits():
        try:
            await asyncio.Future()
        except asyncio.CancelledError:
            ended.append(True)
            raise

    async def fails():
        await asyncio.sleep(0)
        raise KeyError("x")

    async def main():
        with pytest.raises(KeyError):
            await all_of([waits, fails, waits])
        await asyncio.sleep(0)
        assert ended == [True, True]

    asyncio.run(main())


def test_a_part_is_submitted_unless_it_is_cancelled_and_ends_with_its_error():
    found = [None, None]

    async def main():
        engine = Engine(MadeModel(), Runner())
        made = PartJob(engine, part((), [1]), found, deadline=7.0)
        task = asyncio.ensure_future(made.run())
        await asyncio.sleep(0)
        assert engine.runner.jobs == [made.job]
        assert made.job.deadline == 7.0
        made.job.answered(1, "answer")
        made.job.finished(ValueError("a secret"))
        with pytest.raises(RunError, match="the model failed: ValueError"):
            await task
        made.job.finished(None)  # it has ended: nothing more happens
        made.cancel()
        made.job.cancelled = True
        await made.run()
        await asyncio.sleep(0)
        assert (engine.runner.jobs, engine.runner.calls) == ([made.job], ["cancel"])

    asyncio.run(main())
    assert found == [None, "answer"]


def test_an_error_that_nobody_waits_for_any_more_is_not_logged(caplog):
    async def main():
        made = PartJob(Engine(MadeModel(), Runner()), part((), [0]), [None], deadline=7.0)
        made.job.finished(ValueError("why"))
        await asyncio.sleep(0)
        del made
        gc.collect()

    asyncio.run(main())
    assert not caplog.records


def test_nothing_is_called_in_a_loop_that_has_ended():
    async def main():
        return asyncio.get_running_loop()

    call_in(asyncio.run(main()), print)
