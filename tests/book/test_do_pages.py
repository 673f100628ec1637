"""Every block of the how-to pages runs as printed; the names in their tables are there."""

import functools
import importlib
import re
from pathlib import Path

import pytest

from regard.cli.group import SHORT_HELP
from tests.page_blocks import run_python, run_shell, write_corpora

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/do").glob("*.md"))
FOR_EVERY_CHANGE = {"write-your-own"}  # the others take half a minute each
BLOCK = re.compile(r"^```(sh|python|toml)\n(.*?)^```", re.M | re.S)
KEY = re.compile(
    r"`((?:training|model|data|tokenizer|batches|decoding|validation|task)\.(?!json\b)[a-z_0-9.]+)"
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[] if page.stem in FOR_EVERY_CHANGE else pytest.mark.nightly)
        for page in PAGES
    ],
)
def test_the_blocks_of_a_page_run_as_printed(page, tmp_path):
    """In order, in one folder; a block of TOML is the file that its first line names."""
    write_corpora(tmp_path)
    for language, block in BLOCK.findall(page.read_text("utf-8")):
        if language == "toml":
            (tmp_path / block.split("\n")[0].lstrip("# ")).write_text(block, "utf-8")
        elif language == "sh":
            run_shell(block, tmp_path)
        else:
            run_python(block, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_other_code_is_on_a_page(page):
    """Every fence is one of the kinds that are run."""
    fences = re.findall(r"^```(\S+)", page.read_text("utf-8"), re.M)
    assert set(fences) <= {"sh", "python", "toml"}
    assert not re.findall(r"^    \S", BLOCK.sub("", page.read_text("utf-8")), re.M)


@functools.cache
def recipe_keys():
    """All keys and tables of recipes, which take a second to find."""
    from regard.verbs.recipe_keys import model_sections, recipe_sections

    known = {key.name for section in model_sections() for key in section.keys} | {"kind", "preset"}
    keys = {f"model.{name}" for name in known}
    for group in recipe_sections().values():
        for section in group:
            for table in re.findall(r"\[([\w.]+)\]", section.title):
                keys |= {table} | {f"{table}.{key.name}" for key in section.keys}
    return keys


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_recipe_key_that_a_page_names_is_one(page):
    wrong = set(KEY.findall(page.read_text("utf-8"))) - recipe_keys()
    assert not wrong, wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_and_each_name_that_a_page_names_is_there(page):
    text = page.read_text("utf-8")
    assert set(re.findall(r"`regard ([a-z]+)", text)) <= {*SHORT_HELP}
    for package, name in re.findall(r"`(regard(?:\.[a-z]+)*)\.(\w+)", text):
        assert hasattr(importlib.import_module(package), name), name
    for name in re.findall(r"\| `([a-z0-9-]+)`(?:, `([a-z0-9-]+)`)? \|$", text, re.M):
        for recipe in filter(None, name):
            assert (ROOT / "recipes" / f"{recipe}.toml").is_file(), recipe
