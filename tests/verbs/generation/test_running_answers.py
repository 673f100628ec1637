"""Texts of many requests, joining and leaving at any step, have the answers that each has alone."""

import random

import pytest

from regard.errors import DataError
from regard.verbs.generate import Generator
from regard.verbs.translate import Translator

LINES = [" ".join(str(i * j % 10) for j in range(i % 9)) for i in range(24)]
CONTROLS = [
    {},
    {"beam_size": 1},
    {"beam_size": 3, "length_penalty": "power", "alpha": 0.5},
    {"sample": True, "seed": 5, "temperature": 1.3},
    {"beam_size": 4, "stop": ["3 3"], "no_repeat_ngram_size": 2},
]


def decoded(running, pieces, seed):
    """The answers to all pieces, which join a few at a time between steps; place i of request 0."""
    rest, found, tickets = list(enumerate(pieces)), {}, {}
    draw = random.Random(seed)
    while rest or running:
        for _ in range(draw.choice((0, 0, 1, 3))):
            if rest:
                place, piece = rest.pop(draw.randrange(len(rest)))
                tickets[running.add(piece, place)] = place
        for ticket, answer in running.step():
            found[tickets.pop(ticket)] = answer
    assert not tickets
    return [found[place] for place in range(len(pieces))]


@pytest.mark.parametrize("controls", CONTROLS)
def test_translations_are_those_of_each_alone(untrained, controls):
    translator = Translator(untrained, n_best=1, **controls)
    expected = translator.of_pieces(LINES, [1] * len(LINES))
    assert decoded(translator.running(), LINES, seed=1) == expected
    if not translator.settings.samples:
        assert [translator.of_pieces([line], [1])[0] for line in LINES] == expected


@pytest.mark.parametrize("controls", [{"seed": 3}, {"beam_size": 2}, {"temperature": 0.0}])
def test_continuations_are_those_of_the_prompts_alone(decoder_folder, controls):
    generator = Generator(decoder_folder(), max_new_tokens=12, **controls)
    prompts = ["To", "be, ", "", "that is the question. That", "nobler"] * 3
    expected = [each.continuations for each in generator(prompts)]
    found = decoded(generator.running(), prompts, seed=2)
    assert [each.continuations for each in found] == expected


def test_a_cancelled_piece_has_no_answer_and_changes_no_other(untrained):
    translator = Translator(untrained, beam_size=3)
    running = translator.running()
    tickets = [running.add(line, place) for place, line in enumerate(LINES)]
    gone = set(tickets[::3])
    found = {}
    for step in range(10_000):
        if step == 2:
            for ticket in gone:
                running.cancel(ticket)
        found |= dict(running.step())
        if not running:
            break
    kept = [ticket for ticket in tickets if ticket not in gone or ticket in found]
    assert set(kept) == set(found)
    expected = translator.of_pieces(LINES, [1] * len(LINES))
    assert [found[ticket] for ticket in kept] == [expected[ticket] for ticket in kept]
    running.step()
    assert (running.rows, running.tokens) == (0, 0)


def test_what_the_model_cannot_read_is_refused_and_the_others_are_answered(decoder_folder):
    generator = Generator(decoder_folder(decoding={"begin": False}), max_new_tokens=3)
    running = generator.running()
    with pytest.raises(DataError):
        running.add("", 0)
    running.add("To", 0)
    while running:
        found = running.step()
    assert len(found) == 1
