"""The decoding controls of a request: what the server's limits allow, and what is refused by name."""

from types import SimpleNamespace

import msgspec
import pytest

from regard.errors import ConfigError
from regard.serving.dialects.controls import (
    MOST_PHRASES,
    NAMES,
    checked_controls,
    control_fields,
    controls_in,
    count_in,
    refuse_set,
)
from regard.serving.http_error import HttpProblem
from regard.serving.limits import ServerLimits
from regard.verbs.generation.controls import CONTROLS_BY_NAME, Controls

LIMITS = ServerLimits(hypotheses=6, new_tokens=50, proposed_tokens=4, stops=3, candidates=5)


@pytest.mark.parametrize(
    ("name", "most", "others"),
    [
        ("beam_size", 6, {}),
        ("beam_groups", 6, {"beam_size": 6, "diversity": 1.0}),
        ("max_new_tokens", 50, {}),
        ("prompt_lookup", 4, {}),
    ],
)
def test_a_number_may_be_as_large_as_the_limit_of_its_unit(name, most, others):
    assert getattr(checked_controls({name: most, **others}, LIMITS), name) == most
    with pytest.raises(HttpProblem, match=f"{name} may be at most {most} here") as refused:
        checked_controls({name: most + 1, **others}, LIMITS)
    assert (refused.value.status, refused.value.parameter) == (400, name)


def test_every_control_with_a_unit_has_a_limit():
    for name, each in CONTROLS_BY_NAME.items():
        if each.unit and name in NAMES:
            with pytest.raises(HttpProblem, match=f"{name} may be at most"):
                checked_controls({name: 10**6}, LIMITS)


@pytest.mark.parametrize(("name", "most"), [("stop", 3), ("ban", MOST_PHRASES)])
def test_a_list_may_have_as_many_items_as_there_is_room_for(name, most):
    phrases = tuple(f"word{number}" for number in range(most))
    assert getattr(checked_controls({name: phrases}, LIMITS), name) == phrases
    with pytest.raises(HttpProblem, match=f"{name} has too many items") as refused:
        checked_controls({name: (*phrases, "more")}, LIMITS)
    assert refused.value.parameter == name


def test_only_what_a_request_has_set_is_a_control():
    body = SimpleNamespace(**dict.fromkeys(NAMES), beams=3)
    assert controls_in(body, LIMITS) == Controls()
    body.beam_size, body.stop, body.ban, body.sample = 2, ["."], [], False
    assert controls_in(body, LIMITS) == Controls(beam_size=2, stop=(".",), sample=False)
    body.beam_size = -1
    with pytest.raises(ConfigError, match="beam_size"):
        controls_in(body, LIMITS)


def test_a_server_s_own_folders_are_no_field_of_a_request():
    fields = {name: default for name, _, default in control_fields()}
    assert set(fields) == set(NAMES)
    assert {"draft_model", "draft_tokens"}.isdisjoint(fields)
    made = msgspec.defstruct("Made", control_fields())()
    assert made.stop == []
    assert made.beam_size is None


@pytest.mark.parametrize(
    ("json", "ok"),
    [('{"beam_size": 1}', True), ('{"beam_size": "1"}', False), ('{"top_p": 1.0}', True),
     ('{"top_p": 1.1}', False), ('{"stop": ["a"]}', True), ('{"stop": "a"}', False),
     ('{"beam_groups": 1}', True), ('{"beam_groups": 0}', False), ('{"beam_size": 0}', True),
     ('{"beam_size": null}', True)],
)  # fmt: skip
def test_the_document_has_the_range_of_a_control(json, ok):
    made = msgspec.defstruct("Made", control_fields())
    if ok:
        msgspec.json.decode(json, type=made)
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json, type=made)


@pytest.mark.parametrize(("count", "ok"), [(0, False), (1, True), (5, True), (6, False)])
def test_a_request_may_want_as_many_candidates_as_the_server_gives(count, ok):
    if ok:
        assert count_in("n", count, LIMITS) == count
        return
    with pytest.raises(HttpProblem, match="n must be from 1 to 5") as refused:
        count_in("n", count, LIMITS)
    assert (refused.value.status, refused.value.parameter) == (400, "n")


@pytest.mark.parametrize("neutral", [None, msgspec.UNSET, [], {}, False, 0, ""])
def test_a_field_that_asks_for_nothing_is_not_refused(neutral):
    refuse_set({"tools": neutral, "known": 3}, {"tools": "none", "missing": "none"})


@pytest.mark.parametrize("given", [1, ["a"], True, "auto"])
def test_the_first_field_that_cannot_be_honoured_is_refused(given):
    with pytest.raises(HttpProblem, match="tools is not supported: none") as refused:
        refuse_set({"audio": given, "tools": given}, {"tools": "none", "audio": "no"})
    assert refused.value.parameter == "tools"
