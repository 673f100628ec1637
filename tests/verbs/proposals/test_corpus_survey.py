"""A survey counts a corpus, detects its scripts, and finds problems, but none in a good corpus."""

import functools
import itertools
import os
import random
import re
import unicodedata
from pathlib import Path

import pytest

from regard.data import corpus_statistics
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.line_sample import LineSample
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.evaluation import tokenizers
from regard.verbs.proposals.corpus_survey import survey

WORDS = [
    pair.split("=")
    for pair in re.findall(
        r"\S+",
        """
        the=die house=Haus which=welche stands=steht there=dort old=alte with=mit green=grünen
        windows=Fenstern children=Kinder playing=spielen behind=hinter garden=Garten morning=Morgen
        bread=Brot fresh=frisches nobody=niemand knows=weiß where=wo she=sie went=ging yesterday=gestern
        evening=Abend because=weil rain=Regen river=Fluss bridge=Brücke through=durch mountains=Berge
        winter=Winter snow=Schnee teacher=Lehrer school=Schule reads=liest book=Buch about=über
        journey=Reise train=Zug station=Bahnhof
        """,
    )
]
KANA = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよ"


def sentences(count, seed=1):
    """English and German of the same meaning, of 3 to 25 words, each pair but once."""
    generator = random.Random(seed)
    chosen = [[generator.choice(WORDS) for _ in range(generator.randint(3, 25))] for _ in range(count)]
    texts = [
        [" ".join(word[side] for word in words) + f" {seed}{i}." for side in (0, 1)]
        for i, words in enumerate(chosen)
    ]
    return [text for text, _ in texts], [text for _, text in texts]


def in_kana(text):
    return "".join(KANA[ord(letter) % len(KANA)] for letter in text if letter != " ")


ENGLISH, GERMAN = sentences(800)
JAPANESE = [in_kana(text) for text in GERMAN]


@pytest.fixture
def corpus(tmp_path):
    """A corpus of two files, with names of their own where they matter."""

    def written(source, target, names=("train.en", "train.de")):
        paths = [tmp_path / name for name in names]
        for path, lines in zip(paths, (source, target), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        settings = CorpusSettings(source=str(paths[0]), target=str(paths[1]))
        return open_corpus(settings, LinePolicy(unequal="skip"), Path())

    return written


def only(found):
    [finding] = found.findings
    return finding


def test_a_good_corpus_is_counted_and_has_no_findings(corpus):
    found = survey(
        corpus(ENGLISH, GERMAN), {"validation": corpus(*sentences(100, seed=2), ("valid.en", "valid.de"))}
    )
    assert found.findings == ()
    assert found.pairs == 800
    assert (found.source.script.script, found.target.script.script) == ("Latin", "Latin")
    assert (found.tokenize, found.best_metric) == ("13a", "bleu")
    assert 20 < found.target.frequent_characters <= len(set("".join(GERMAN)))
    assert 0.5 < found.shared_letters < 1


def test_a_good_corpus_in_two_scripts_has_no_findings(corpus, monkeypatch):
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)
    found = survey(corpus(ENGLISH, JAPANESE, ("train.en", "train.ja")))
    assert found.findings == ()
    assert found.target.script.script == "Japanese"
    assert (found.tokenize, found.best_metric) == ("char", "chrf++")
    assert found.shared_letters == 0


def test_text_without_spaces_is_noticed_in_any_script(corpus):
    found = survey(corpus(ENGLISH, [text.replace(" ", "") for text in GERMAN]))
    assert (found.target.script.script, found.tokenize, found.best_metric) == ("Latin", "char", "chrf++")


def test_tasks_within_one_language_have_no_findings(corpus):
    paraphrases = [text.replace("old", "ancient").replace("went", "walked") for text in ENGLISH]
    assert not [f for f in survey(corpus(ENGLISH, paraphrases)).findings if f.kind in ("swapped", "language")]


@pytest.mark.parametrize("pairs", [60, 800])
@pytest.mark.parametrize("swapped", ["alternating", "half at random", "a third at random"])
def test_swapped_pairs_are_found_in_any_order_however_many_they_are(corpus, pairs, swapped):
    generator = random.Random(2)
    share = {"half at random": 1 / 2, "a third at random": 1 / 3}.get(swapped)
    turned = [i % 2 == 0 if share is None else generator.random() < share for i in range(pairs)]
    both = zip(turned, ENGLISH[:pairs], GERMAN[:pairs], strict=True)
    mixed = [(german, english) if turn else (english, german) for turn, english, german in both]
    finding = only(survey(corpus(*zip(*mixed, strict=True))))
    assert (finding.kind, finding.is_usual) == ("swapped", False)
    fewer = min(sum(turned), pairs - sum(turned))
    assert 0.9 * fewer <= finding.count <= pairs - fewer  # of halves either may be the swapped one
    assert ("about as many as are not, which may be the swapped ones" in finding.text) == (
        fewer > 0.4 * pairs
    )


def test_two_texts_in_one_language_are_not_checked_for_swapped_pairs(corpus):
    shuffled = [" ".join(random.Random(text).sample(text.split(), len(text.split()))) for text in ENGLISH]
    found = {each.kind: each for each in survey(corpus(ENGLISH, shuffled)).findings}
    assert {*found} <= {"not distinguished", "no capitals"}
    assert found["not distinguished"].is_usual
    assert "swapped sides were not searched for" in found["not distinguished"].text


def test_repeated_pairs_are_counted_with_their_places(corpus):
    finding = only(survey(corpus([*ENGLISH, *ENGLISH[10:14]], [*GERMAN, *GERMAN[10:14]])))
    assert (finding.kind, finding.count, finding.is_usual) == ("duplicates", 4, True)
    assert "4 of 804 pairs" in finding.text
    assert (
        "train.en:801 (as line 11), train.en:802 (as line 12), train.en:803 (as line 13), ..." in finding.text
    )


def test_sources_with_several_targets_are_counted(corpus):
    finding = only(survey(corpus([*ENGLISH, *ENGLISH[:5]], [*GERMAN, *GERMAN[5:10]])))
    assert (finding.kind, finding.count) == ("several targets", 5)
    assert "up to 2" in finding.text


def test_untranslated_copies_are_counted_with_their_places(corpus):
    finding = only(survey(corpus(ENGLISH, [*GERMAN[:50], *ENGLISH[50:60], *GERMAN[60:]])))
    assert (finding.kind, finding.count, finding.is_usual) == ("copies", 10, False)
    assert "train.de:51, train.de:52, train.de:53, ..." in finding.text


def test_text_that_was_cut_into_subwords_or_tokens_is_noticed(corpus):
    def cut(texts):
        return [text.replace("n ", "@@ n ") for text in texts]

    def tokenised(texts):
        return [text.replace(" ", " , ", 1) for text in texts]

    finding = only(survey(corpus(cut(ENGLISH), cut(GERMAN))))
    assert (finding.kind, finding.is_usual) == ("segmented", False)
    assert finding.text.startswith("train.en and train.de are cut into subwords by subword-nmt (@@)")
    assert only(survey(corpus(ENGLISH, cut(GERMAN)))).text.startswith("train.de is cut into subwords")
    assert (
        "train.en and train.de are tokenised"
        in only(survey(corpus(tokenised(ENGLISH), tokenised(GERMAN)))).text
    )


def test_held_out_lines_that_are_trained_on_are_named(corpus):
    english, german = sentences(100, seed=2)
    english[3], german[3] = ENGLISH[41], GERMAN[41]
    english[7] = ENGLISH[99]  # with another target
    held_out = corpus(english, german, ("valid.en", "valid.de"))
    finding = only(survey(corpus(ENGLISH, GERMAN), {"validation": held_out}))
    assert (finding.kind, finding.count) == ("overlap", 2)
    assert "2 of 100 sources of valid.en" in finding.text
    assert "1 of them with the same target" in finding.text
    assert "valid.en:4 (train.en:42), valid.en:8 (train.en:100)" in finding.text


def test_held_out_files_in_the_other_order_are_noticed(corpus):
    english, german = sentences(100, seed=2)
    held_out = corpus(german, english, ("valid.de", "valid.en"))
    finding = only(survey(corpus(ENGLISH, GERMAN), {"validation": held_out}))
    assert finding.kind == "swapped"
    assert "valid.de and valid.en look swapped" in finding.text


def test_the_count_is_that_of_the_corpus_and_not_of_its_sample(corpus, monkeypatch):
    monkeypatch.setattr(corpus_statistics, "LineSample", functools.partial(LineSample, pairs=60))
    english, german = sentences(300, seed=2)
    held_out = corpus(german, english, ("valid.de", "valid.en"))
    finding = only(survey(corpus(ENGLISH, GERMAN), {"validation": held_out}))
    assert finding.kind == "swapped"
    assert 280 <= finding.count <= 300


def test_files_whose_names_do_not_fit_their_scripts_look_swapped(corpus):
    finding = only(survey(corpus(JAPANESE, ENGLISH, ("train.en", "train.ja"))))
    assert finding.kind == "swapped"
    assert "train.en and train.ja look swapped" in finding.text
    wrong = only(survey(corpus(ENGLISH, GERMAN, ("train.en", "train.ru"))))
    assert (wrong.kind, wrong.text) == (
        "script",
        "train.ru is written in Latin; by its name it should be Cyrillic",
    )


@pytest.mark.parametrize("at", [0, 300, 700])
@pytest.mark.parametrize("lost", [1, 3])
def test_a_shift_by_lines_is_found_where_it_begins(corpus, at, lost):
    finding = only(survey(corpus(ENGLISH, GERMAN[:at] + GERMAN[at + lost :])))
    assert finding.kind == "misaligned"
    assert f"line n of train.en matches line n - {lost} of train.de" in finding.text
    assert abs(800 - lost - at - finding.count) <= 12


def test_lines_that_were_left_out_do_not_change_where_a_shift_begins(corpus):
    source = ["", *ENGLISH[:400], "", *ENGLISH[400:]]
    finding = only(survey(corpus(source, ["", *GERMAN[:400], "x", "y", *GERMAN[400:]])))
    assert "matches line n + 1 of train.de" in finding.text
    assert abs(400 - finding.count) <= 12


def test_shuffled_files_and_shuffled_stretches_are_noticed(corpus):
    generator = random.Random(0)
    shuffled = generator.sample(GERMAN, len(GERMAN))
    assert "are not correlated" in only(survey(corpus(ENGLISH, shuffled))).text
    part = GERMAN[:300] + generator.sample(GERMAN[300:500], 200) + GERMAN[500:]
    finding = only(survey(corpus(ENGLISH, part)))
    assert "do not match" in finding.text
    assert abs(200 - finding.count) <= 25


@pytest.mark.parametrize(("start", "end"), [(100, 110), (300, 500), (400, 800)])
def test_a_piece_with_its_sides_swapped_is_found(corpus, start, end):
    source = ENGLISH[:start] + GERMAN[start:end] + ENGLISH[end:]
    target = GERMAN[:start] + ENGLISH[start:end] + GERMAN[end:]
    finding = only(survey(corpus(source, target)))
    assert (finding.kind, finding.is_usual) == ("swapped", False)
    assert abs(finding.count - (end - start)) <= 0.05 * (end - start)
    assert f"train.en:{start + 1}" in finding.text


def test_lines_in_the_language_of_the_other_side_are_found(corpus):
    target = GERMAN[:200] + sentences(20, seed=3)[0] + GERMAN[220:]
    finding = only(survey(corpus(ENGLISH, target)))
    assert (finding.kind, finding.count) == ("language", 20)
    assert "20 lines of train.de in the language of the source side: train.de:201" in finding.text


def test_lines_in_the_wrong_language_are_counted_once_for_both_files(corpus):
    english, german = sentences(11, seed=3)
    source = ENGLISH[:100] + german[:2] + ENGLISH[102:]
    finding = only(survey(corpus(source, GERMAN[:200] + english[2:] + GERMAN[209:])))
    assert (finding.kind, finding.count) == ("language", 11)
    assert "11 pairs with a side in the language of the other: train.en:101, train.en:102, train.de" in (
        finding.text
    )


@pytest.mark.parametrize("every", [10, 3])
def test_where_many_pairs_are_swapped_no_other_pair_is_called_wrong(corpus, every):
    pairs = [
        pair[::-1] if i % every == 2 else pair for i, pair in enumerate(zip(ENGLISH, GERMAN, strict=True))
    ]
    finding = only(survey(corpus(*zip(*pairs, strict=True))))
    swapped = sum(i % every == 2 for i in range(800))
    assert finding.kind == "swapped"
    assert swapped - 2 <= finding.count <= swapped


SPANISH = re.findall(
    r"\S+", "casa vieja ventanas verdes niños jugando detrás jardín mañana nadie sabe donde ella fue ayer"
)


@pytest.mark.parametrize("files", [("target",), ("source", "target")])
def test_lines_in_a_third_language_are_found(corpus, files):
    generator = random.Random(5)
    sides = dict(zip(("source", "target"), map(list, sentences(2000, seed=4)), strict=True))
    for line in range(7, 2000, 20):
        for file in files:
            words = (generator.choice(SPANISH) for _ in range(generator.randint(5, 15)))
            sides[file][line] = f"{' '.join(words)} {line}."
    finding = only(survey(corpus(*sides.values())))
    where = "lines of train.de in another language than the rest: train.de:8, train.de:28, "
    both = "pairs with a side in another language than the rest of its file: train.en:8, "
    assert (finding.kind, finding.count) == ("another language", 100)
    assert (where if len(files) == 1 else both) in finding.text


def test_lines_in_another_script_are_found(corpus):
    russian = [f"Где находится вокзал номер {i}, скажите пожалуйста" for i in range(10)]
    finding = only(survey(corpus(ENGLISH, GERMAN[:200] + russian + GERMAN[210:])))
    assert finding.kind == "script"
    assert "10 lines of train.de not in Latin like the rest: train.de:201, train.de:202, " in finding.text


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        ("broken characters", "Er fÃ¤hrt nach KÃ¶ln.", "Er fährt nach Köln, à Paris, Ångström, Â, Ã."),
        ("broken characters", "Sie sagt: â€žNeinâ€œ", "Sie sagt: „Nein“ – 5 €"),
        ("broken characters", "Das weiÃŸ ich nicht.", "Das weiß ich nicht, MANHÃ”, “IRMÃ”."),
        ("broken characters", "Ãœber Ã–sterreich", "Über Österreich, ÃO, â, „â“"),
        ("broken characters", "Das kostet 5 â‚¬.", "Das kostet 5 €."),
        ("broken characters", "ÐŸÑ€Ð¸Ð²ÐµÑ‚", "Ðað er gott, Ñandú"),
        ("broken characters", "Er f\x84hrt \x07 nach", "Er fährt\tnach\u00a0Köln"),
        (
            "broken characters",
            "Der Weg f?hrt ?ber die Stra?e.",
            "Wohin? Nach Köln?! Ja?Nein, so?ja, a?b=c.",
        ),
        ("broken characters", "?????? ??? ab Köln ?? ????", "Was ?? Wie ?? ab Köln ??"),
        ("HTML tags", '<p class="a">Brot</p><br/>', "3 < 4 > 2 und <3, a < b"),
        ("HTML entities", "Brot &amp; Butter, 3 &#8364;", "Brot & Butter; R&D, a&b;"),
        ("target without words", "https://example.org/a?b=c 17", "Siehe https://example.org/a?b=c"),
        ("odd length", "Haus " * 200, "Haus mit Fenstern am Fluss"),
    ],
)
def test_pairs_that_are_wrong_by_themselves_are_found(corpus, kind, wrong, right):
    def found(text):
        source = [*ENGLISH[:9], *["the old house with green windows by the river"] * 5, *ENGLISH[14:]]
        surveyed = survey(corpus(source, [*GERMAN[:9], *[text] * 5, *GERMAN[14:]]))
        kinds = [each.kind for each in surveyed.findings if not each.is_usual]
        assert kinds == list(surveyed.checks.found)
        return [(problem, each.lines) for problem, each in surveyed.checks.found.items()]

    assert found(wrong) == [(kind, [10, 11, 12, 13, 14])]
    assert found(right) == []


def with_some(texts, found):
    """The texts, with these in place of every hundredth."""
    return [found[i // 100 % len(found)] if i % 100 == 50 else text for i, text in enumerate(texts)]


def test_one_lost_letter_is_found_where_several_words_lack_one_and_a_replacement_character_always(corpus):
    def broken(target):
        findings = survey(corpus(ENGLISH, target)).findings
        return [(each.count, each.text) for each in findings if each.kind == "broken characters"]

    lost = ["Das ist eine Stra?e.", "Er f?hrt am Abend.", "Das Haus ist gro?artig.", "Wie hei?t der Fluss?"]
    [(count, _)] = broken(with_some(GERMAN, lost))
    assert count == 8
    assert not broken(with_some(GERMAN, lost[:2]))
    spaces = ["Wer ist da?niemand.", "Was ist das?ein Haus.", "Ist er da?das ist gut."]
    spaces += ["Das ist ein Haus.", "Er ist da."]
    assert not broken(with_some(GERMAN, spaces))
    [(count, text)] = broken([*GERMAN[:99], "Er f\ufffdhrt am Abend.", *GERMAN[100:]])
    assert count == 1
    assert "train.en:100" in text


def test_sides_that_are_cut_off_are_found(corpus):
    cut = [text[: len(text) // 2].rstrip() if i % 20 == 0 else text for i, text in enumerate(GERMAN)]
    finding = only(survey(corpus(ENGLISH, cut)))
    assert finding.kind == "cut off"
    assert 30 <= finding.count <= 40
    without_stops = [text.rstrip(".0123456789 ") if i % 20 == 0 else text for i, text in enumerate(GERMAN)]
    assert not survey(corpus(ENGLISH, without_stops)).findings


def test_a_target_of_many_sources_and_letters_of_one_case_are_named(corpus):
    target = ["das alte Haus." if i % 20 == 0 else text for i, text in enumerate(GERMAN)]
    found = {each.kind: each for each in survey(corpus(ENGLISH, target)).findings}
    assert (found["one target"].count, found["one target"].is_usual) == (40, False)
    lower = only(survey(corpus(map(str.lower, ENGLISH), map(str.lower, GERMAN))))
    upper = only(survey(corpus(map(str.upper, ENGLISH), map(str.upper, GERMAN))))
    assert "have no capital letters" in lower.text
    assert "have only capital letters" in upper.text
    assert lower.is_usual
    assert upper.is_usual


def capitalised(texts):
    return [text[0].upper() + text[1:] for text in texts]


@pytest.mark.parametrize(
    ("change", "side", "text"),
    [
        (str.lower, 0, "train.en has no capital letters, and train.de has: lower-case what you translate"),
        (
            str.lower,
            1,
            "train.de has no capital letters, and train.en has: translations will have no",
        ),
        (str.upper, 0, "train.en has only capital letters, and train.de has others: capitalise what you"),
        (str.upper, 1, "train.de has only capital letters, and train.en has others: translations will have"),
    ],
)
def test_letters_of_one_case_in_one_side_alone_are_named(corpus, change, side, text):
    sides = [capitalised(ENGLISH), capitalised(GERMAN)]
    sides[side] = list(map(change, sides[side]))
    finding = only(survey(corpus(*sides)))
    assert (finding.kind, finding.is_usual) == ("no capitals", True)
    assert finding.text.startswith(text)


def test_a_file_in_another_unicode_form_is_named(corpus):
    target = [unicodedata.normalize("NFD", text) for text in GERMAN]
    finding = only(survey(corpus(ENGLISH, target)))
    assert (finding.kind, finding.is_usual) == ("decomposed letters", False)
    assert finding.count == sum(one != other for one, other in zip(GERMAN, target, strict=True))
    assert (
        "of train.de with letters and their accents as two characters (Unicode NFD): train.de:"
        in finding.text
    )


def test_no_break_spaces_are_named_if_many_lines_have_them(corpus):
    def with_spaces(every):
        return [text.replace(" ", "\u00a0", 1) if i % every == 0 else text for i, text in enumerate(GERMAN)]

    finding = only(survey(corpus(ENGLISH, with_spaces(20))))
    assert (finding.kind, finding.count, finding.is_usual) == ("no-break spaces", 40, True)
    assert survey(corpus(ENGLISH, with_spaces(100))).findings == ()


def test_sorted_lists_of_words_are_not_called_misaligned(corpus):
    generator = random.Random(7)
    words = [["k" * generator.randint(4, 30) for _ in range(200)], ["l" * 20] * 400, ["m" * 5] * 400]
    source = [f"{word}{i}" for i, word in enumerate(itertools.chain(*words))]
    target = [f"{word}{word}"[: len(word) + i % 7] for i, word in enumerate(source)]
    assert "misaligned" not in [each.kind for each in survey(corpus(source, target)).findings]


@pytest.mark.parametrize("vocab_size", [300, 1000])
def test_tokens_are_estimated_from_words_or_characters(corpus, vocab_size):
    tokens = train_tokenizer(GERMAN, "bpe", TokenizerSettings(vocab_size=vocab_size)).encode_batch(GERMAN)
    true = sum(map(len, tokens)) + 2 * len(GERMAN)
    assert survey(corpus(ENGLISH, GERMAN)).target_tokens_by(vocab_size) == pytest.approx(true, rel=0.2)


DATA = os.environ.get("REGARD_DATA")


@pytest.mark.skipif(not DATA, reason="REGARD_DATA names no data sets")
@pytest.mark.parametrize(
    ("name", "pair"), [("multi30k:val", "de fr"), ("newstest_en_de:newstest2014", "en de")]
)
def test_published_corpora_have_only_true_findings(name, pair):
    source, target = (f"{name}.{side}" for side in pair.split())
    found = survey(open_corpus(CorpusSettings(source=source, target=target), LinePolicy(), Path()))
    assert all(finding.is_usual for finding in found.findings)
