"""A rule-based sentence splitter for several languages, without a language setting or a model.

A sentence ends after `.`, `!`, `?`, an ellipsis or the full stop of another script, and the closing quotes
and brackets after it, if a new sentence can begin there. A single full stop is ambiguous: it may belong to an
abbreviation, an ordinal, an initial, a number or an address; the tables below decide. In doubt, the text is
not split. A line break always ends a sentence.
"""

import re

# Quotes and brackets, for classes of regular expressions
CLOSERS = "\"'”’“»›«‹)\\]}」』）】》〉〕"
OPENERS = "-\"'“„‘‚«‹»›(\\[{¿¡*_–—•「『（【《〈"
LINE_BREAKS = re.compile(r"[\n\r\v\f\x85\u2028\u2029]\s*")
STOPS = ".!?…‼⁇⁈⁉"
# Punctuation that may end a sentence, with the closing quotes and brackets after it.
ENDS = re.compile(
    rf"(?P<wide>[。！？｡।॥։።፧။។۔؟\u037e][。！？｡।॥؟.!?…]*[{CLOSERS}]*)"  # needs no white space after it
    # Begins at the first stop of a run: trying each of them would take quadratic time.
    rf"|(?<![{STOPS}])[{STOPS}]+(?: [.!?…]+)*[{CLOSERS}]*(?:[ \u00a0\u202f]»(?=\s|$))?(?=\s|$)"
)
SPACE = re.compile(r"\s*")
OPENERS_AND_SPACE = re.compile(rf"[{OPENERS}\s]*")
LEADING_OPENERS = re.compile(rf"[{OPENERS}]*")
WORD = re.compile(r"[^\W_]+")
ALPHANUMERIC = re.compile(r"[^\W_]")
DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,4}")  # U.S, z.B, Ph.D
INITIAL = re.compile(r"[^\W\d_]\.")
DAY_OF_MONTH = re.compile(r"\d{1,2}\.")
ROMAN = re.compile(r"[IVXLC]{2,}")
MAX_LOOKBACK = 100  # characters before a full stop that are examined
QUOTATIVE = re.compile(r"\s*(?:と|って|という|など)")  # after a quotation within a sentence: 「…。」と言った


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# All abbreviations are in lower case. These always precede another word; no sentence ends after them.
BEFORE_WORDS = _words(
    """
    mr mrs ms mx wm dr drs prof rev hon st ste mt ft gen col lt capt cpt sgt cmdr maj adm gov sen rep
    pres supt messrs hr hrn fr frl dipl ing hl univ bzgl bzw ca evtl ggf inkl exkl insb sog vgl
    zzgl abzgl mm mme mlle mgr env sra srta dña ud uds vd dott ssa avv geom exmo exma dhr mevr mej vs cf
    viz resp approx incl excl esp tzv např tj inż ul np tzn śp tzw
    """
)
# The same with several full stops.
BEFORE_WORDS_DOTTED = _words(
    """
    e.g i.e z.b d.h u.a v.a m.e i.d.r o.ä u.ä s.o s.u p.ex c.-à-d p.ej t.ex bl.a f.eks m.a.w d.w.z
    """
)
# Abbreviations only before a number ("No. 3"); elsewhere they are words ("I said no.")
BEFORE_NUMBERS = _words(
    """
    no nos est nr nrn num art arts abs abschn anm aufl bd bde kap ch chap sec sect fig figs abb tab tbl
    eq vol vols p pp s ss seq cap lib n nn pág págs pag pagg str par tel ziff z zl č čl obr sp
    """
)
# Abbreviations that may end a sentence: they do if the next word is one of `STARTERS`.
MAY_END = _words(
    """
    etc usw inc ltd co corp bros jr sr esq plc gmbh dept est ave blvd rd apt bldg al ibid ff f u.s u.k
    u.n a.m p.m jan feb febr mär apr jun jul aug sep sept okt oct nov dez dec janv févr avr juil déc ene
    abr ago dic giu lug mo di mi do sa so mon tue tues wed thu thur thurs fri sat sun std min sek stk
    tsd mio mrd mld tys oz lbs hrs
    """
)
# Those of the tables above that are abbreviations only with a capital: "the sun.", "we sat.", "a rep."
CAPITALISED = _words(
    """
    hon gen col maj gov sen rep pres ste mt fr ing sun sat wed fri mon so do mi di mo sa ago dic est dec
    jan
    """
)
# Words that begin sentences but hardly ever names: they distinguish "at 5 p.m. He left" from "the U.S. Army".
STARTERS = _words(
    """
    A After All Also An And Another Are As At But By Can Could Did Do Does Each Even Every For From Had
    Has Have He Her Here His How However I I'm If In Is It Its Let Many May Maybe More Most My
    Nevertheless No Nobody Not Now On Once One Our Please Perhaps She Should Since So Some Still That
    The Their Then There These They This Those Though Thus To Today Under Until Was We Were What When
    Where Which While Who Why Will With Would Yes Yet You Your Aber Alle Als Am Auch Auf Aus Bei Bis
    Bitte Da Danach Dann Das Dass Dein Dem Den Denn Der Deshalb Die Dies Diese Dieser Dieses Doch Dort
    Du Ein Eine Einen Einer Er Es Für Gibt Hast Hat Heute Hier Ich Ihr Ihre Im Ist Ja Jeder Jetzt Kann
    Mein Meine Mit Nach Nein Nicht Niemand Noch Nun Nur Ob Oder Ohne Sein Seine Seit Sie Sind Sogar Soll
    Trotzdem Und Unser Vielleicht Von Vor Wann War Waren Warum Wegen Weil Wenn Wer Wie Wir Wird Wo Zu
    Zum Alors Après Au Aussi Avec Avant C Ce Ces Cet Cette Ceci Cela Chaque Comment Comme D Dans De Des
    Donc Elle Elles En Est Et Il Ils J Je L La Le Les Leur Lui Ma Mais Mes Moi Mon Ne Non Notre Nous Ou
    Oui Où Par Parce Pour Pourquoi Qu Quand Que Qui Quoi Sa Sans Si Son Sous Sur Tous Tu Un Une Vous
    Ahora Cada Con Cuando Cuándo Cómo Dónde El Él Ella Ellas Ellos Entonces Era Eso Esta Esto Este Está
    Fue Hay Hoy Las Lo Los Me Mi Nadie Nosotros Otra Para Pero Por Porque Qué Quién Se Sí Sin Su Sus
    También Te Tú Una Usted Ustedes Y Ya Yo Anche Che Chi Ci Come Di Dopo Dove E È Gli Ha Io Lei Loro
    Noi Ora Perché Poi Quando Questa Questo Sono Tutti Voi Ao Agora Como Depois Ela Eles Ele Em Então Eu
    Foi Hoje Isso Mas Muito Na Não Nós O Onde Os Quem Seu Sua Também Um Uma Você Dat Deze Dit Een Geen
    Haar Het Hij Hoe Ik Jij Maar Met Naar Niet Nu Omdat Ons Onze Op Toen Van Voor Waar Waarom Wat Wij Ze
    Zij Zijn
    """
)
# Words before a day or an ordinal in German, and words after one.
BEFORE_ORDINALS = _words(
    """
    ab am an auf beim bis das dem den der des die eine einem einen einer ihr ihre im in jeden jedem
    jedes mein meine nach seit sein seine seinem seinen seiner vom von vor zu zum zur
    """
)
AFTER_ORDINALS = _words(
    """
    januar jänner februar feber märz april mai juni juli august september oktober november dezember jan
    feb apr jun jul aug sep sept okt nov dez januari februari jahrhundert jh jahrhunderts weltkrieg
    weltkriegs auflage klasse stock etage mal platz kapitel band semester lebensjahr jahrestag
    geburtstag
    """
)


def split_sentences(text: str) -> list[str]:
    """Splits a text into sentences, each with the white space after it.

    Joined, the sentences are exactly the text. White space at the start of the text belongs to the first
    sentence. A line without a letter or digit is one sentence; the empty text has none. Time is linear in the
    length of the text.
    """
    caseless = text == text.lower()  # then a lower-case letter may begin a sentence
    return [piece for line in split_lines(text) for piece in _sentences(line, caseless)]


def split_lines(text: str) -> list[str]:
    """Splits a text into lines, each with the white space after it, empty lines included.

    Joined, the lines are exactly the text.
    """
    pieces: list[str] = []
    start = 0
    for line_break in LINE_BREAKS.finditer(text):
        if line_break.end() < len(text) and text[start : line_break.start()].strip():
            pieces.append(text[start : line_break.end()])
            start = line_break.end()
    return [*pieces, text[start:]] if start < len(text) else pieces


def _sentences(line: str, caseless: bool) -> list[str]:
    """The sentences of a line; each has a letter or digit, unless the line has none."""
    pieces: list[str] = []
    start, first = 0, _first_alphanumeric(line, 0)  # where a sentence begins, and its first letter or digit
    last = next((i for i in reversed(range(len(line))) if line[i].isalnum()), -1)
    for stop in ENDS.finditer(line):
        if stop.end() <= first:
            continue
        next_start = _after_space(line, stop.end())
        if next_start > last:  # only punctuation follows: it belongs to the last sentence
            break
        if _is_boundary(line, stop, next_start, start, caseless):
            pieces.append(line[start:next_start])
            start, first = next_start, _first_alphanumeric(line, next_start)
    return [*pieces, line[start:]]


def _first_alphanumeric(text: str, start: int) -> int:
    """The position of the first letter or digit at or after `start`, else the length of the text."""
    alphanumeric = ALPHANUMERIC.search(text, start)
    return alphanumeric.start() if alphanumeric else len(text)


def _is_boundary(text: str, stop: re.Match[str], next_start: int, start: int, caseless: bool) -> bool:
    """True if the sentence from `start` ends with the punctuation `stop`, a match of `ENDS`.

    The next sentence would begin at `next_start`, after white space.
    """
    if stop["wide"]:
        return not (stop.group()[-1] in "」』" and QUOTATIVE.match(text, stop.end()))
    return not _continues(text, stop, next_start, start, caseless)


def _after_space(text: str, position: int) -> int:
    """The position of the first character at or after `position` that is not white space."""
    space = SPACE.match(text, position)
    assert space is not None
    return space.end()


def _continues(text: str, stop: re.Match[str], next_start: int, start: int, caseless: bool) -> bool:
    """True if the sentence from `start` continues after `stop`; the next word begins at `next_start`."""
    punctuation = stop.group()
    next_word = _next_word(text, next_start)
    if _is_lower(next_word) and not caseless:
        return True
    if punctuation.startswith(("..", ". .", "…")):  # an ellipsis
        return next_word == "I" or next_word.isdecimal()
    if punctuation != ".":
        return False
    words = text[max(start, stop.start() - MAX_LOOKBACK) : stop.start()].rsplit(maxsplit=2)
    word = LEADING_OPENERS.sub("", words[-1].rpartition("/")[2], count=1) if words else ""
    before = LEADING_OPENERS.sub("", words[-2], count=1) if len(words) > 1 else ""
    return _is_abbreviation(word, before, next_word)


def _next_word(text: str, position: int) -> str:
    """The word after `position` and any opening quotes; a single character, or none, if no word follows."""
    openers = OPENERS_AND_SPACE.match(text, position)
    assert openers is not None
    word = WORD.match(text, openers.end())
    return word.group() if word else text[openers.end() : openers.end() + 1]


def _is_lower(word: str) -> bool:
    """True if a word begins with a lower-case letter, except for names such as iPhone."""
    return word[:1].islower() and not word[1:2].isupper()


def _is_abbreviation(word: str, before: str, next_word: str) -> bool:
    """True if the full stop after `word` belongs to an abbreviation or number and ends no sentence."""
    if word.isdecimal():
        return _is_ordinal(word, before, next_word)
    lowered = word.lower()
    capital_fits = lowered not in CAPITALISED or word[:1].isupper()
    if (lowered in BEFORE_WORDS and capital_fits) or lowered in BEFORE_WORDS_DOTTED:
        return True
    if lowered in BEFORE_NUMBERS and next_word[:1].isdecimal():
        return True
    may_start = next_word in STARTERS or not next_word[:1].isalnum()
    if len(word) == 1 and word.lower() != word.upper():  # a letter of a script with capitals
        return _is_initial(word, before, may_start)
    return not may_start and bool(
        (lowered in MAY_END and capital_fits) or DOTTED.fullmatch(word) or ROMAN.fullmatch(word)
    )


def _is_initial(word: str, before: str, next_may_start: bool) -> bool:
    """True if a letter with a full stop is part of a name or an abbreviation: "J. R. R.", "z. B."."""
    if word == "I" and before[:1].islower():
        return False  # "So am I."
    named = not before or INITIAL.fullmatch(before) is not None or (word.isupper() and before[0].isupper())
    return named or not next_may_start


def _is_ordinal(word: str, before: str, next_word: str) -> bool:
    """True if a number with a full stop is an ordinal, a day of a date, or an item number."""
    if not before:
        return len(word) <= 3  # an item: "1. Open the box."
    if len(word) > 3:
        return False
    if next_word.isdecimal() and len(next_word) == 3:
        return True  # thousands: "77. 000"
    if next_word.isdecimal():  # day and month: "am 3. 12."
        return DAY_OF_MONTH.fullmatch(before) is not None or before.lower() in BEFORE_ORDINALS
    return before.lower() in BEFORE_ORDINALS or next_word.lower() in AFTER_ORDINALS
