"""Entries of glossaries: what is read, what is refused, and where a term occurs."""

import pytest

from regard.errors import DataError
from regard.verbs.generation.glossary import (
    Dictionary,
    forms_of,
    occurring,
    read_entries,
    read_glossary,
)

PAIR = ("en", "de")


def read(content, kind="tsv"):
    return dict(read_entries(content, kind, PAIR).entries)


def test_tsv_and_csv_give_the_same_entries():
    entries = {"station": "Haltestelle", "New York": "New York", "a, b": 'so "genannt"'}
    assert read(Dictionary(entries).tsv()) == entries
    assert read('station,Haltestelle\r\nNew York,New York,en,de\n"a, b","so ""genannt"""\n', "csv") == entries


def test_white_space_around_terms_and_empty_lines_do_not_count():
    assert read("  New   York \t New York \r\n\n \nb\tc\n") == {"New York": "New York", "b": "c"}


@pytest.mark.parametrize(
    ("content", "kind", "named"),
    [
        ("", "tsv", "no entry"),
        ("a", "tsv", "entry 1 has 0 tabs"),
        ("a\tb\nc\td\te", "tsv", "entry 2 has 2 tabs"),
        ("a\t ", "tsv", "empty term"),
        ("a\tb\na\tc", "tsv", "entry 2 has the source 'a' again"),
        ("a\tb|c", "tsv", "has |"),
        ("a\tb\x07", "tsv", "control character"),
        ("a\t" + "b" * 1025, "tsv", "more than 1,024 bytes"),
        ("a,b,c", "csv", "3 columns"),
        ("a,b,de,en", "csv", "other languages"),
        ('a,"b', "csv", "not CSV"),
    ],
)
def test_wrong_entries_are_refused_by_their_number(content, kind, named):
    with pytest.raises(DataError) as refused:
        read(content, kind)
    assert named in refused.value.message


@pytest.mark.parametrize(
    ("name", "line", "is_header"),
    [
        ("a.tsv", "source\ttarget", True),
        ("a.csv", '"Source term",Target term,source_lang,target_lang', True),
        ("a.csv", "English,German", True),
        ("a.tsv", "en\tde", True),
        ("a.tsv", "EN-US\tDE", True),
        ("a.tsv", "it\tes", False),
        ("a.tsv", "source\tQuelle", False),
        ("a.tsv", "en\tund so", False),
    ],
)
def test_a_first_line_with_names_of_columns_is_no_entry_and_is_noted(tmp_path, capsys, name, line, is_header):
    separator = "," if name.endswith("csv") else "\t"
    (tmp_path / name).write_text(f"{line}\ndog{separator}Hund\n")
    entries = read_glossary(tmp_path / name).entries
    assert entries["dog"] == "Hund"
    assert len(entries) == 2 - is_header
    assert ("is no entry" in capsys.readouterr().err) == is_header


def test_a_term_may_have_as_many_bytes_as_the_limit_in_utf_8():
    assert read("a\t" + "\u00fc" * 512) == {"a": "\u00fc" * 512}
    with pytest.raises(DataError, match="entry 1 has a term of more than"):
        read("a\t" + "\u00fc" * 512 + "b")


def test_a_language_in_csv_may_have_white_space_and_capitals_and_other_fields_are_refused():
    assert read("a,b, EN ,De", "csv") == {"a": "b"}
    assert read(",\n\na,b", "csv") == {"a": "b"}
    for content in ("a", "a,b,en", "a,b,en,de,x"):
        with pytest.raises(DataError, match=r"entry 1 has \d columns"):
            read(content, "csv")


def test_the_size_of_a_dictionary_is_that_of_its_terms_in_utf_8():
    assert Dictionary({"a": "\u00fc", "bc": "d"}).bytes == 6
    assert Dictionary({"a": "\u00fc", "bc": "d"}).lengths == {1, 2}


def test_terms_that_follow_each_other_are_all_found_and_none_twice():
    terms = Dictionary(dict.fromkeys(["a", "a b", "b", "c"], "x"))
    assert list(occurring("a b c a b a", [terms])) == ["a b", "c", "a"]
    assert list(occurring("c,b-a", [terms])) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("The station is closed.", ["station"]),
        ("Stations are closed.", []),
        ("The substation (station)!", ["station"]),
        ("Station and Station", ["station"]),  # a capital counts at the beginning only
        ("At the Station", []),
        ("\u201cStation\u201d is a word.", ["station"]),
        ("He lives in New\n York.", ["New York"]),
        ("He lives in York.", ["York"]),
        ("Give us the US flag.", ["US"]),
        ("caf\u0065\u0301 culture", ["caf\u00e9"]),
        ("\u99c5\u306f\u3069\u3053\u3067\u3059\u304b", ["\u99c5"]),
        ("", []),
        (" ", []),
    ],
)
def test_a_term_occurs_as_whole_words_as_it_is_written(sentence, found):
    terms = ["station", "New York", "York", "US", "caf\u00e9", "\u99c5"]
    assert list(occurring(sentence, [Dictionary(dict.fromkeys(terms, "x"))])) == found


def test_the_first_dictionary_with_a_term_counts_and_the_longest_term():
    one, other = (
        Dictionary({"station": "A"}),
        Dictionary({"station": "B", "train station": "C", "train": "D"}),
    )
    assert occurring("A train station.", [one, other]) == {"train station": "C"}
    assert occurring("A station, a train.", [one, other]) == {"station": "A", "train": "D"}


def test_a_target_may_have_a_capital():
    assert forms_of("rot") == ("rot", "Rot")
    assert forms_of("Wagen") == ("Wagen",)


def test_a_glossary_file_is_read_by_its_name_and_wrong_entries_name_it(tmp_path):
    lines, table, wrong = tmp_path / "terms.txt", tmp_path / "terms.csv", tmp_path / "wrong.tsv"
    lines.write_bytes(b"\xef\xbb\xbfa, b\tc\r\n\r\nd\te\n")
    table.write_text('"a, b",c,en,de\nd,e,EN,de\n')
    wrong.write_text("a\tb\nc\n")
    assert dict(read_glossary(lines).entries) == dict(read_glossary(table).entries) == {"a, b": "c", "d": "e"}
    with pytest.raises(DataError, match=r"glossary .*wrong.tsv: entry 2 has 0 tabs"):
        read_glossary(wrong)
    table.write_text("a,b,en,de\nc,d,en,fr\n")
    with pytest.raises(DataError, match="entry 2 is of other languages"):
        read_glossary(table)
    with pytest.raises(DataError, match=r"^no such file: .*none.tsv"):
        read_glossary(tmp_path / "none.tsv")
