"""Thousands of damaged folders: none crashes regard, and no damage that a manifest covers is accepted."""

import json
import random

import pytest

from regard.errors import FolderError, RegardError
from regard.verbs.convert import convert
from regard.weights.model_folder import load_model
from regard.weights.pretrained import load_pretrained

MUTATIONS = 300  # of each kind of folder
SEEDS = [7, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(8, 16))]
ODD = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    10**18,
    2**63,
    -(10**30),
    10**400,
    1.5,
    1e300,
    "",
    "x",
    "\ud800",
    [],
    [[]],
    {},
    {"a": 1},
    "gelu",
    "../x",
)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """`content` with one thing changed."""
    place = chance.randrange(len(content))
    end = place + chance.randint(1, 40)
    match chance.randrange(7):
        case 0:
            return content[:place]
        case 1:
            return content[:place] + content[end:]
        case 2:
            return content[:place] + chance.randbytes(chance.randint(1, 20)) + content[place:]
        case 3:
            return content[:place] + content[place:end] * 2 + content[end:]
        case 4:
            return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
        case 5:
            return (
                content[:place]
                + chance.choice([b"{", b"[", b'"', b"9", b"-", b"null", b"\0"])
                + content[end:]
            )
    return content[:place] + content[place:end][::-1] + content[end:]


def mutilated(content: bytes, chance: random.Random) -> bytes:
    """A JSON file with one of its values changed, removed or renamed."""
    table = json.loads(content)
    inner, name = table, None
    while isinstance(inner, dict | list) and inner:
        names = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        name, outer = chance.choice(names), inner
        inner = outer[name]
        if chance.random() < 0.5:
            break
    match chance.randrange(3):
        case 0:
            del outer[name]
        case 1 if isinstance(outer, dict):
            outer[f"{name}s"] = outer.pop(name)
        case _:
            outer[name] = chance.choice(ODD)
    return json.dumps(table).encode()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_damaged_pretrained_folder_crashes(gpt2, seed):
    chance = random.Random(seed)
    files = {path.name: path.read_bytes() for path in gpt2.iterdir()}
    loaded = untold = 0
    for _ in range(MUTATIONS):
        name = chance.choice(sorted(files))
        way = mutilated if name.endswith(".json") and chance.random() < 0.6 else damaged
        (gpt2 / name).write_bytes(way(files[name], chance))
        try:
            load_pretrained(gpt2)
            loaded += 1  # a number in a weight is another; a setting that changes nothing is gone
        except RegardError as error:
            untold += not (error.message and error.hint)
        (gpt2 / name).write_bytes(files[name])
    assert loaded < MUTATIONS / 2
    assert untold == 0
    load_pretrained(gpt2)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_damaged_folder_is_accepted(gpt2, tmp_path, seed):
    chance = random.Random(seed)
    folder = tmp_path / "ours"
    convert(gpt2, out=folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    untold = 0
    del files["README.md"]  # free to be edited
    for number in range(MUTATIONS):
        name = chance.choice(sorted(files))
        content = damaged(files[name], chance)
        if content == files[name]:
            continue
        (folder / name).write_bytes(content)
        try:
            load_model(folder)
        except FolderError as error:
            untold += not error.hint
        else:
            caught = (number, name, content)
            assert name == "MANIFEST.json", caught
            assert harmless(content, files[name]), caught
        (folder / name).write_bytes(files[name])
    load_model(folder)
    assert untold == 0


def harmless(content: bytes, whole: bytes) -> bool:
    """True if a changed manifest still has the same entries; it does not cover itself."""
    listed, before = (json.loads(each).get("files") for each in (content, whole))
    return all(listed.get(name) in (entry, None) for name, entry in before.items())
