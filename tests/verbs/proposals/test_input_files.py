"""Files that are not lines of text are refused by the name of their format, before anything is read."""

import gzip

import pytest

from regard.errors import DataError
from regard.verbs.proposals.input_files import input_files

TMX = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/></tmx>\n'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (TMX, "TMX"),
        (f"\ufeff{TMX}", "TMX"),
        ('<xliff version="1.2">\n', "XLIFF"),
        (f"<!-- by > a tool -->{TMX}", "TMX"),
        ('<!DOCTYPE tmx [\n<!ELEMENT tmx ANY>\n]>\n<tmx version="1.4">\n', "TMX"),
        ('<?xml version="1.0"?>\n<dataset id="newstest2021">\n<collection>', "XML"),
        ('<tstset setid="newstest2014">\n', "SGML"),
        ('<refset setid="newstest2014" srclang="any" trglang="de">\n', "SGML"),
    ],
)
@pytest.mark.parametrize("opened", [open, gzip.open])
def test_a_translation_memory_is_no_running_text(tmp_path, text, name, opened):
    path = tmp_path / "a.en"
    with opened(path, "wb") as file:
        file.write(text.encode())
    with pytest.raises(DataError, match=rf"a\.en is {name}, which is not read") as caught:
        input_files([path])
    assert ".tsv" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["<b>bold</b> text\n", "<tmx> is a format\n", "tmx <tmx>\n", "<tmxes> are none\n", "<?php\n"]
)
def test_text_with_tags_is_text(tmp_path, text):
    path = tmp_path / "a.en"
    path.write_text(text)
    assert input_files([path]).train == (str(path),)
