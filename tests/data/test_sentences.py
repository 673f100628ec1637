"""Sentences are found in any text, and joined they are the text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sentences import split_lines, split_sentences

# A bar is where a sentence ends; the rest of each line is the text.
CASES = """
Hello. |World
Where is the station? |Is it far?
Stop! |Come here!
What?! |No way!
He left... |Nobody saw him.
I think... I am lost.
Hmm… |Das weiß niemand.
It costs $3.75 a piece. |I buy two.
Pi is 3.14159. |It never ends.
Version 2.0.1 is out. |Get it now.
He paid $3. |She paid nothing.
Mr. Smith and Mrs. Jones met Dr. Brown. |They talked.
J. R. R. Tolkien wrote it. |I read it.
George W. Bush came. |He spoke.
It was written by J. K. Rowling.
Vitamin and mineral: take vitamin C. |It helps.
So am I. |Tom is not.
He lives in the U.S. Army base. |She does not.
He lives in the U.S. |He likes it.
Fruit, e.g. Apples, are good. |Eat some.
I came at 5 p.m. |He came later.
Bring pens, paper, etc. |We start at ten.
Apple Inc. Executives met. |They left.
See p. 3 and fig. 2 for more. |Then go on.
No. 5 is alive. |It moves.
Oh no. |He fell.
I do not mind. |Tom does.
We love the sun. |Tom does not.
They told me. |Tom knew.
Visit https://www.example.com/a.b?c=d. |It is free.
Mail john.smith@example.com. |He answers.
Open file.txt and run it. |Done.
"Hello." |She smiled.
"What?" she asked. |"Nothing," he said.
(It rained.) |We stayed.
He said: "I go." |Then he went.
‘Yes.’ |She nodded.
1. Open the box. |2. Close it.
i like it. |you do too.
are you there? |yes.
He bought an iPhone. |iPads are larger.
Yahoo! is a company. |So is Google.
It ended in 1990. |Then came peace.
The firm (est. 1951) grew. |It sold.
It was sold for... 16 million.
Seit 2006 wurden 77. 000 gezählt. |Niemand weiß es.
Es war das 165. Stiftungsfest. |Alle kamen.
Am 16./17. August wird gebaut. |Danach nicht.
Great! |😊 See you.
Well done! 😊
Wait . . . |What is that?
Ich komme am 3. Mai. |Du auch?
Der 2. Weltkrieg endete 1945. |Dann kam Frieden.
Er lebte im 19. Jahrhundert. |Heute ist alles anders.
Wir treffen uns am 24. 12. 2020. |Bis dann.
Das ist z.B. Obst. |Es schmeckt.
Das ist z. B. Obst. |Es schmeckt.
Er kam d.h. Peter kam. |Gut.
Siehe Nr. 7 auf S. 12. |Danke.
Fragen Sie Prof. Dr. Müller. |Er weiß es.
Äpfel, Birnen usw. |Wir haben alles.
„Komm her.“ |Er kam.
»Komm her.« |Er kam.
Er lehnte ab. |Tom auch.
Die Straße ist 5 km lang, d. h. Fahren lohnt sich. |Los!
Ludwig XIV. |Er war König.
Bonjour ! |Comment allez-vous ?
« Bonjour. » |Il partit.
M. Dupont est là. |Mme Martin aussi.
C'est vrai. |J'arrive.
Il est né en 1990. |C'est loin.
¿Cómo estás? |¡Muy bien!
Sr. López vino. |Él habló.
Quiero ir. |Ella no.
Ciao. |Come stai?
Il dott. Rossi è qui. |Non parla.
Bom dia! |Tudo bem?
Het is laat. |Ik ga naar huis.
Привет. |Как дела?
Жил А. С. Пушкин. |Он писал стихи.
Γεια σας. |Τι κάνετε;
你好。|你好吗？|我很好！
他说：“你好。”|然后走了。
今日は。|元気ですか？|はい！
「行く。」と彼は言った。|そして帰った。
مرحبا. |كيف حالك؟ |أنا بخير.
آپ کیسے ہیں؟ |میں ٹھیک ہوں۔
नमस्ते। |आप कैसे हैं? |मैं ठीक हूँ।
안녕하세요. |잘 지내세요?
សួស្តី។ |សុខសប្បាយទេ?
""".strip().splitlines()


@pytest.mark.parametrize("case", CASES)
def test_sentences_end_where_they_end(case):
    assert split_sentences(case.replace("|", "")) == [each for each in case.split("|") if each]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("...", ["..."]),
        (" Hello. ", [" Hello. "]),
        ("Hello.\nWorld", ["Hello.\n", "World"]),
        ("Hello\nWorld", ["Hello\n", "World"]),
        ("Hello.  \r\n\r\n  world", ["Hello.  \r\n\r\n  ", "world"]),
        ("Mr.\nSmith", ["Mr.\n", "Smith"]),
        ("one\u2028two", ["one\u2028", "two"]),
        ("- - -\nHello. :)\n", ["- - -\n", "Hello. :)\n"]),
    ],
)
def test_white_space_and_line_breaks(text, pieces):
    assert split_sentences(text) == pieces


SIGNS = st.sampled_from(
    [*".!?…。！？؟।;:,-–'\"“”„»«()[]「」 \n\r\t\u2028\xa0aAbB1Ü我هमै😊́", "Mr.", " z. B. ", "\r\n"]
)


TEXTS = st.text() | st.lists(SIGNS).map("".join)


@given(TEXTS)
def test_the_sentences_of_any_text_are_the_text(text):
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert all(pieces)


@given(TEXTS)
def test_the_lines_of_any_text_are_the_text_and_sentences_are_within_them(text):
    lines, pieces = split_lines(text), split_sentences(text)
    assert "".join(lines) == text
    assert not any(
        len(each.strip().splitlines()) > 1 and set(each.strip()) & {*"\n\r\u2028"} for each in lines
    )
    ends = [sum(map(len, lines[: place + 1])) for place in range(len(lines))]
    assert {*ends} <= {sum(map(len, pieces[: place + 1])) for place in range(len(pieces))}


@given(TEXTS)
def test_of_several_sentences_of_a_line_each_has_a_letter_or_a_digit(text):
    for line in split_lines(text):
        pieces = split_sentences(line)
        assert len(pieces) == 1 or all(any(each.isalnum() for each in piece) for piece in pieces)


@pytest.mark.parametrize("part", ["Mr. ", "! ", ".", "a. ", "\n", "「。」と", " »", "1. ", "x", "Hello. "])
@pytest.mark.parametrize("end", ["", "b"])  # with "b", a run of full stops ends no sentence
def test_the_time_grows_with_the_length_and_not_with_its_square(part, end):
    def seconds(characters):
        text = "a " + part * (characters // len(part)) + end
        began = time.process_time()
        assert "".join(split_sentences(text)) == text
        return time.process_time() - began

    assert seconds(48_000) < 30 * seconds(6_000) + 0.1
