"""The script of a text is detected from its letters, and spaces between words from the script."""

import pytest

from regard.data.scripts import detect_script, script_of


@pytest.mark.parametrize(
    ("text", "script", "spaces"),
    [
        ("Où est la gare ? Straße, naïve, Ｆｕｌｌ", "Latin", True),
        ("Где вокзал?", "Cyrillic", True),
        ("Πού είναι ο σταθμός; Ἑλλάς", "Greek", True),
        ("أين المحطة؟", "Arabic", True),
        ("איפה התחנה?", "Hebrew", True),
        ("स्टेशन कहाँ है?", "Devanagari", True),
        ("역이 어디에 있습니까?", "Hangul", True),
        ("駅はどこですか。", "Japanese", False),
        ("ラーメンを二つください。", "Japanese", False),
        ("ﾗｰﾒﾝ", "Japanese", False),
        ("车站在哪里？", "Han", False),
        ("使用TensorFlow训练模型", "Han", False),
        ("สถานีอยู่ที่ไหน", "Thai", False),
        ("ສະຖານີຢູ່ໃສ", "Lao", False),
        ("ស្ថានីយ៍នៅឯណា", "Khmer", False),
        ("ဘူတာဘယ်မှာလဲ", "Myanmar", False),
        ("འབབ་ཚུགས་ག་པར་ཡོད།", "Tibetan", False),
        ("ภาษาไทยอยู่ที่นี่ 车站在哪里车站在哪里", "mixed", False),
        ("12 + 30 = 42", "none", True),
        ("", "none", True),
    ],
)
def test_a_text_is_recognised_by_its_letters(text, script, spaces):
    found = detect_script([text])
    assert (found.script, found.spaces) == (script, spaces)


def test_a_few_names_in_another_script_change_nothing():
    english = ["The station is not far from here, next to the old market."] * 20
    assert detect_script([*english, "東京"]).script == "Latin"
    assert 0.9 < detect_script([*english, "東京"]).share < 1
    assert detect_script(["我们坐火车去东京，然后回家。"] * 20 + ["NHK の"]).script == "Han"


def test_several_texts_are_taken_together():
    assert detect_script(["東京", "京都", "これは日本語です"]).script == "Japanese"
    assert sum(detect_script(["Tokyo", "東京"]).shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("character", [" ", "1", "。", "!", "\u0301", "µ", "\U0001f600", "\ue000"])
def test_what_all_scripts_share_has_none(character):
    assert script_of(character) is None
