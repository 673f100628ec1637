"""What a server keeps is bounded by bytes, and what it does not keep is made anew."""

import numpy as np
import pytest

from regard.serving import look_store as looks_module
from regard.serving.look_store import LookStore
from regard.verbs.look import Looker, Request


def test_few_looks_are_kept_and_others_are_made_anew(untrained, monkeypatch):
    monkeypatch.setattr(looks_module, "KEPT", 2)
    kept = LookStore(Looker(untrained, device="cpu"))
    assert kept.first() is None
    made = [kept.make({"text": text})["id"] for text in ("1", "2", "3")]
    assert len(kept._kept) == 2
    assert kept.get(made[0], "summary")["text"] == "1"
    assert kept.get(made[2], "steps")


def test_requests_are_remembered_by_their_bytes_and_the_first_always(untrained, monkeypatch):
    kept = LookStore(Looker(untrained, device="cpu"), Request(text="1 2"))
    first = kept.first()
    monkeypatch.setattr(looks_module, "REMEMBERED_BYTES", 100_000)
    monkeypatch.setattr(looks_module, "KEPT", 1)
    small = [kept.make({"text": text})["id"] for text in ("1", "2", "3")]
    assert kept.get(small[0], "summary")["text"] == "1"
    layers = ["encoder.blocks.0"] * 10_000  # as much as a body may hold
    large = [kept.make({"text": "4", "changes": {"layers": layers}})["id"] for _ in range(3)]
    assert [*kept._asked] == [first["id"], large[-1]], "the first and the newest are remembered"
    assert set(kept._asked) == set(kept._asked_bytes)
    for gone in (small[1], large[0]):
        with pytest.raises(looks_module.Refused, match="no longer"):
            kept.get(gone, "steps")
    assert kept.first() == first


def test_all_that_a_look_holds_counts(untrained):
    """JSON as well as arrays, the model's output, the question."""
    look = Looker(untrained, device="cpu")(Request(text="1 2 3"))
    before = look.bytes_held
    for path, least in (("summary", 1000), ("steps", 3000), ("heads", 1000), ("logits", 100)):
        look.get(path)
        assert look.bytes_held >= before + least, path
        before = look.bytes_held
    assert look._watched.bytes_held >= look._watched.output.nbytes + look._watched.recording.bytes_held
    longer = Looker(untrained, device="cpu")(Request(text="1 2 3", target="1 " * 100))
    assert longer.bytes_held > Looker(untrained, device="cpu")(Request(text="1 2 3")).bytes_held


def test_of_a_look_that_is_too_large_alone_nothing_is_kept_but_its_summary(untrained, monkeypatch):
    kept = LookStore(Looker(untrained, device="cpu"))
    monkeypatch.setattr(looks_module, "MOST_BYTES", 20_000)
    number = kept.make({"text": "1 2 3"})["id"]
    look = kept._kept[number]
    found = [kept.get(number, path) for path in look.paths()]
    assert look.bytes_held < 20_000 + max(each.nbytes for each in found if isinstance(each, np.ndarray)) * 2
    np.testing.assert_array_equal(kept.get(number, "logits"), found[look.paths().index("logits")])


def test_looks_that_hold_much_make_room_for_the_newest(untrained, monkeypatch):
    kept = LookStore(Looker(untrained, device="cpu"))
    made = [kept.make({"text": text})["id"] for text in ("1", "2", "3")]
    monkeypatch.setattr(looks_module, "MOST_BYTES", kept._kept[made[2]].bytes_held + 10_000)
    look = kept._kept[made[2]]
    before = look.bytes_held
    kept.get(made[2], "logits")
    assert look.bytes_held > before, "what was asked for is held, and counts"
    assert [*kept._kept] == [made[2]]
    assert kept.get(made[0], "summary")["text"] == "1", "it is made anew"
    assert [*kept._kept] == [made[0]]
