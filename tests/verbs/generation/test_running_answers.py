"""Texts of many requests, joining and leaving at any step, have the answers that each has alone."""

import random

import pytest

from regard.errors import ConfigError, DataError
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


@pytest.mark.parametrize(
    "controls", [{"seed": 3}, {"temperature": 0.0, "stop": ["e"]}, {"seed": 4, "stop": ["th"]}]
)
@pytest.mark.parametrize("kind", ["characters", "bytebpe"])
def test_a_text_in_parts_is_the_text_of_the_whole(decoder_folder, controls, kind):
    generator = Generator(decoder_folder(kind), max_new_tokens=20, **controls)
    prompts = ["To be", "naïve 東", "question"]
    expected = [each.continuations[0].text for each in generator(prompts)]
    running = generator.running()
    tickets = [running.add(prompt, place, in_parts=place != 1) for place, prompt in enumerate(prompts)]
    parts = {ticket: [] for ticket in tickets}
    while running:
        running.step()
        for ticket, text in running.parts:
            parts[ticket].append(text)
    assert ["".join(parts[ticket]) for ticket in tickets] == [expected[0], "", expected[2]]
    assert len(parts[tickets[0]]) > 1 or len(expected[0]) < 2


def test_the_text_of_a_beam_is_not_known_in_parts(decoder_folder, untrained):
    for verb in (Generator(decoder_folder(), beam_size=2), Translator(untrained)):
        running = verb.running()
        with pytest.raises(ConfigError, match=r"single text|no answer in parts"):
            running.add("To", 0, in_parts=True)
        assert not running
