"""The text of a recipe with other settings: it reads as them, and keeps comments where it can."""

import tomllib

import pytest

from regard.recipe import apply_overrides
from regard.verbs.shared.recipe_text import with_settings

TEXT = '''# Train it: regard train small.toml

name = "small"   # of the folder
card = """
[model]
d_model = 1
"""

[model]
d_model = 128    # width of the hidden states
num_heads = 4

[data.lines]     # what to do with # lines
empty = "skip"

[training]
max_steps = 380  # updates; 17 epochs
freeze = [
    "encoder",   # all of it
]
'''
OVERRIDES = (
    [],
    ["model.d_model=64"],
    ["name=a # b", "card=x"],
    ["training.freeze=[]", "training.adapter.rank=4", "model.dropout=1e-3"],
    ["tokenizer.kind=bpe", "extra=1", "data.train.source='a \"b\"'", "data.train.target=ü\\n"],
    ["data.lines={empty = 'error', too_long = 'skip'}"],
    ["model.deep={}", "training.schedule={kind = 'linear', parts = [{a = 1}, {a = -inf}]}"],
)


@pytest.mark.parametrize("overrides", OVERRIDES)
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("\n", "\r\n"),
        'name="x"\nmodel={d_model=128, num_heads=4}\ntraining.max_steps = 3\ntraining.seed=2',
        'name="x"\n[training]\nlist.a=1\n[[data.several]]\na = 1\n[[data.several]]\na = 2\n',
        'name="x"\n"a b".c = 1\n[data."d.e"]\n"#" = 2\n[model]',
        "",
    ],
)
def test_the_text_reads_as_the_settings(text, overrides):
    if "several" in text and any(each.startswith("data.") for each in overrides):
        overrides = []
    table = apply_overrides(tomllib.loads(text), overrides)
    assert tomllib.loads(with_settings(text, table)) == table


def test_settings_that_do_not_differ_keep_the_text_to_the_byte():
    text = TEXT.replace("\n", "\r\n")
    assert with_settings(text, tomllib.loads(text)) == text


def test_only_the_lines_of_changed_settings_change_and_say_what_was_there():
    table = apply_overrides(tomllib.loads(TEXT), ["training.max_steps=160", "model.dropout=0.1"])
    changed = [line for line in with_settings(TEXT, table).splitlines() if line not in TEXT.splitlines()]
    assert [" ".join(line.split()) for line in changed] == [
        "dropout = 0.1 # added",
        "max_steps = 160 # was 380: updates; 17 epochs",
    ]


def test_a_setting_that_is_gone_leaves_the_text():
    table = tomllib.loads(TEXT)
    del table["model"]["num_heads"]
    assert with_settings(TEXT, table) == TEXT.replace("num_heads = 4\n", "")


def test_arrays_of_tables_that_do_not_change_keep_their_comments():
    text = '[[data.train]]\nfile = "a"  # first\n[[data.train]]\nfile = "b"\n\n[training]\nseed = 1\n'
    table = apply_overrides(tomllib.loads(text), ["training.seed=2"])
    changed = with_settings(text, table)
    assert tomllib.loads(changed) == table
    assert changed.startswith(text[: text.index("seed")])


def test_a_changed_list_of_tables_is_written_as_one():
    text = '[data]\n[[data.train]]\nsource = "a"  # the first\n[[data.train]]\nsource = "b"\nweight = 1.0\n'
    table = {"data": {"train": [{"source": "a"}, {"source": "b", "weight": 3, "columns": {"of a": 1}}]}}
    found = with_settings(text, table)
    assert tomllib.loads(found) == table
    assert found.count("[[data.train]]\n") == 2
    assert 'source = "b"\nweight = 3\ncolumns = { "of a" = 1 }\n' in found
