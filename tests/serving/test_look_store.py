"""The server keeps Looks up to a number of bytes, and computes others again."""

import numpy as np
import pytest

from regard.serving import look_store
from regard.serving.look_store import LookStore
from regard.verbs.look import Looker, LookRequest


def test_few_looks_are_kept_and_others_are_computed_again(untrained, monkeypatch):
    monkeypatch.setattr(look_store, "MAX_LOOKS", 2)
    store = LookStore(Looker(untrained, device="cpu"))
    assert store.first() is None
    made = [store.create({"text": text})["id"] for text in ("1", "2", "3")]
    assert len(store._looks) == 2
    assert store.get(made[0], "summary")["text"] == "1"
    assert store.get(made[2], "steps")


def test_a_look_that_is_used_stays_longer(untrained, monkeypatch):
    monkeypatch.setattr(look_store, "MAX_LOOKS", 2)
    store = LookStore(Looker(untrained, device="cpu"))
    one, two = (store.create({"text": text})["id"] for text in ("1", "2"))
    store.get(one, "summary")
    three = store.create({"text": "3"})["id"]
    assert [*store._looks] == [one, three]
    assert two in store._requests


def test_a_resource_that_a_look_does_not_have_is_not_found(untrained):
    store = LookStore(Looker(untrained, device="cpu"))
    number = store.create({"text": "1"})["id"]
    with pytest.raises(look_store.HttpError, match="this look has no 'nothing'") as refusal:
        store.get(number, "nothing")
    assert refusal.value.status == 404
    assert refusal.value.hint


def test_requests_of_exactly_the_limit_are_all_remembered(untrained, monkeypatch):
    store = LookStore(Looker(untrained, device="cpu"))
    made = [store.create({"text": text})["id"] for text in ("1", "2")]
    own = store._request_bytes[made[0]]
    monkeypatch.setattr(look_store, "MAX_REQUEST_BYTES", 3 * own)
    made += [store.create({"text": "3"})["id"]]
    assert [*store._requests] == made
    made += [store.create({"text": "4"})["id"]]
    assert [*store._requests] == made[1:], "as few as need be are forgotten"


def test_requests_are_remembered_by_their_bytes_and_the_first_always(untrained, monkeypatch):
    store = LookStore(Looker(untrained, device="cpu"), LookRequest(text="1 2"))
    first = store.first()
    monkeypatch.setattr(look_store, "MAX_REQUEST_BYTES", 100_000)
    monkeypatch.setattr(look_store, "MAX_LOOKS", 1)
    small = [store.create({"text": text})["id"] for text in ("1", "2", "3")]
    assert store.get(small[0], "summary")["text"] == "1"
    layers = ["encoder.blocks.0"] * 10_000  # as much as a body may hold
    large = [store.create({"text": "4", "changes": {"layers": layers}})["id"] for _ in range(3)]
    assert [*store._requests] == [first["id"], large[-1]], "the first and the newest are remembered"
    assert set(store._requests) == set(store._request_bytes)
    for gone in (small[1], large[0]):
        with pytest.raises(look_store.HttpError, match="no longer"):
            store.get(gone, "steps")
    assert store.first() == first


def test_all_that_a_look_holds_counts(untrained):
    """JSON as well as arrays, the model's output, the question."""
    look = Looker(untrained, device="cpu")(LookRequest(text="1 2 3"))
    before = look.bytes_held
    for path, least in (("summary", 1000), ("steps", 3000), ("heads", 1000), ("logits", 100)):
        look.get(path)
        assert look.bytes_held >= before + least, path
        before = look.bytes_held
    assert look._recorded.bytes_held >= look._recorded.output.nbytes + look._recorded.recording.bytes_held
    longer = Looker(untrained, device="cpu")(LookRequest(text="1 2 3", target="1 " * 100))
    assert longer.bytes_held > Looker(untrained, device="cpu")(LookRequest(text="1 2 3")).bytes_held


def test_of_a_look_that_is_too_large_alone_nothing_is_kept_but_its_summary(untrained, monkeypatch):
    store = LookStore(Looker(untrained, device="cpu"))
    monkeypatch.setattr(look_store, "MAX_BYTES", 20_000)
    number = store.create({"text": "1 2 3"})["id"]
    look = store._looks[number]
    found = [store.get(number, path) for path in look.paths()]
    assert look.bytes_held < 20_000 + max(each.nbytes for each in found if isinstance(each, np.ndarray)) * 2
    np.testing.assert_array_equal(store.get(number, "logits"), found[look.paths().index("logits")])
    assert store._looks[number] is look, "it is not computed from the beginning each time"


def test_looks_of_exactly_the_limit_are_kept_with_all_that_they_hold(untrained, monkeypatch):
    store = LookStore(Looker(untrained, device="cpu"))
    made = [store.create({"text": text})["id"] for text in ("1", "2")]
    store.get(made[0], "logits")
    held = [store._looks[number].bytes_held for number in made]
    monkeypatch.setattr(look_store, "MAX_BYTES", sum(held))
    store.get(made[0], "logits")
    assert sorted(store._looks) == sorted(made)
    assert [store._looks[number].bytes_held for number in made] == held
    another = store.create({"text": "2"})["id"]
    assert [*store._looks] == [made[0], another], "as few as need be are dropped"


def test_large_looks_make_room_for_the_most_recently_used(untrained, monkeypatch):
    store = LookStore(Looker(untrained, device="cpu"))
    made = [store.create({"text": text})["id"] for text in ("1", "2", "3")]
    monkeypatch.setattr(look_store, "MAX_BYTES", store._looks[made[2]].bytes_held + 10_000)
    look = store._looks[made[2]]
    before = look.bytes_held
    store.get(made[2], "logits")
    assert look.bytes_held > before, "a computed resource is kept, and counts"
    assert [*store._looks] == [made[2]]
    assert store.get(made[0], "summary")["text"] == "1", "it is computed again"
    assert [*store._looks] == [made[0]]
