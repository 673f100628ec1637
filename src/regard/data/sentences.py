"""Sentence splitter: where sentences end, by rules that need no language and no model.

A sentence ends after `.`, `!`, `?`, an ellipsis or the full stop of another script, with the quotes and
brackets that close there, if a new sentence can begin behind it. A full stop alone is ambiguous: it may
belong to an abbreviation, an ordinal, an initial, a number or an address, which the tables below tell apart.
Where the rules cannot know, the text stays together. A line break ends a sentence always.
"""

import re

CLOSERS = "\"'”’“»›«‹)\\]}」』）】》〉〕"
OPENERS = "-\"'“„‘‚«‹»›(\\[{¿¡*_–—•「『（【《〈"
BREAKS = re.compile(r"[\n\r\v\f\x85\u2028\u2029]\s*")
ENDS = re.compile(
    rf"(?P<wide>[。！？｡।॥։።፧။។۔؟\u037e][。！？｡।॥؟.!?…]*[{CLOSERS}]*)"  # no white space needed behind these
    rf"|(?P<marks>[.!?…‼⁇⁈⁉]+(?: [.!?…]+)*[{CLOSERS}]*(?:[ \u00a0\u202f]»(?=\s|$))?)(?=\s|$)"
)
SPACE = re.compile(r"\s*")
OPENED = re.compile(rf"[{OPENERS}\s]*")
LEADING = re.compile(rf"[{OPENERS}]*")
WORD = re.compile(r"[^\W_]+")
ALPHANUMERIC = re.compile(r"[^\W_]")
DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,4}")  # U.S, z.B, Ph.D
INITIAL = re.compile(r"[^\W\d_]\.")
DAY = re.compile(r"\d{1,2}\.")
ROMAN = re.compile(r"[IVXLC]{2,}")
REACH = 100  # characters before a full stop that are looked at
QUOTATIVE = re.compile(r"\s*(?:と|って|という|など)")  # 「…。」と言った


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Followed by what they belong to, so no sentence ends here. Compared in lower case.
TITLES = _words(
    """
    mr mrs ms mx wm dr drs prof rev hon st ste mt ft gen col lt capt cpt sgt cmdr maj adm gov sen rep
    pres supt messrs hr hrn fr frl dipl ing hl univ bzgl bzw ca evtl ggf inkl exkl insb sog vgl
    zzgl abzgl mm mme mlle mgr env sra srta dña ud uds vd dott ssa avv geom exmo exma dhr mevr mej vs cf
    viz resp approx incl excl esp tzv např tj inż ul np tzn śp tzw
    """
)
# The same, written with several full stops.
BEFORE_MORE = _words(
    """
    e.g i.e z.b d.h u.a v.a m.e i.d.r o.ä u.ä s.o s.u p.ex c.-à-d p.ej t.ex bl.a f.eks m.a.w d.w.z
    """
)
# Followed by a number: "p. 3"; before anything else they are words.
BEFORE_NUMBERS = _words(
    """
    no nos est nr nrn num art arts abs abschn anm aufl bd bde kap ch chap sec sect fig figs abb tab tbl
    eq vol vols p pp s ss seq cap lib n nn pág págs pag pagg str par tel ziff z zl č čl obr sp
    """
)
# May end a sentence: it does if a word follows that begins one.
EITHER = _words(
    """
    etc usw inc ltd co corp bros jr sr esq plc gmbh dept est ave blvd rd apt bldg al ibid ff f u.s u.k
    u.n a.m p.m jan feb febr mär apr jun jul aug sep sept okt oct nov dez dec janv févr avr juil déc ene
    abr ago dic giu lug mo di mi do sa so mon tue tues wed thu thur thurs fri sat sun std min sek stk
    tsd mio mrd mld tys oz lbs hrs
    """
)
# Of both, what is another word in small letters: "the sun.", "we sat.", "a rep."
CAPITALISED = _words(
    """
    hon gen col maj gov sen rep pres ste mt fr ing sun sat wed fri mon so do mi di mo sa ago dic est dec
    jan
    """
)
# Words that begin sentences, and hardly ever names: they tell "at 5 p.m. He left" from "the U.S. Army".
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
# Before a day or an ordinal of German, and behind one.
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
    """The sentences of a text, in order, each with the white space behind it.

    Joined they are the text, to the character. White space that opens the text belongs to the first; a line
    without a letter or digit is one sentence, the empty text none. The time is proportional to the length.
    """
    caseless = text == text.lower()  # then a small letter may begin a sentence
    return [piece for line in split_lines(text) for piece in _sentences(line, caseless)]


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with the white space behind it; joined they are the text.

    Empty lines are white space behind the line before them.
    """
    pieces: list[str] = []
    start = 0
    for found in BREAKS.finditer(text):
        if found.end() < len(text) and text[start : found.start()].strip():
            pieces.append(text[start : found.end()])
            start = found.end()
    return [*pieces, text[start:]] if start < len(text) else pieces


def _sentences(line: str, caseless: bool) -> list[str]:
    pieces: list[str] = []
    start, content = 0, _content(line, 0)
    last = next((place for place in reversed(range(len(line))) if line[place].isalnum()), -1)
    for found in ENDS.finditer(line):
        if found.end() <= content:
            continue
        end = _after_space(line, found.end())
        if end > last:
            break
        if _ends(line, found, end, start, caseless):
            pieces.append(line[start:end])
            start, content = end, _content(line, end)
    return [*pieces, line[start:]]


def _content(text: str, start: int) -> int:
    """Where the first letter or digit stands, without which nothing is a sentence of its own."""
    found = ALPHANUMERIC.search(text, start)
    return found.start() if found else len(text)


def _ends(text: str, found: re.Match[str], behind: int, start: int, caseless: bool) -> bool:
    """Whether the sentence from `start` ends at `found`, behind whose white space the next would begin."""
    if found["wide"]:
        return not (found.group()[-1] in "」』" and QUOTATIVE.match(text, found.end()))
    return not _goes_on(text, found, behind, start, caseless)


def _after_space(text: str, place: int) -> int:
    found = SPACE.match(text, place)
    assert found is not None
    return found.end()


def _goes_on(text: str, found: re.Match[str], behind: int, start: int, caseless: bool) -> bool:
    """Whether the sentence goes on behind `found`, which ends with white space at `behind`."""
    marks = found.group()
    follows = _following(text, behind)
    if _is_small(follows) and not caseless:
        return True
    if marks.startswith(("..", ". .", "…")):
        return follows == "I" or follows.isdecimal()
    if marks != ".":
        return False
    words = text[max(start, found.start() - REACH) : found.start()].rsplit(maxsplit=2)
    word = LEADING.sub("", words[-1].rpartition("/")[2], count=1) if words else ""
    before = LEADING.sub("", words[-2], count=1) if len(words) > 1 else ""
    return _belongs(word, before, follows)


def _following(text: str, place: int) -> str:
    """The word that follows, without what opens it; a single mark where it is none."""
    opened = OPENED.match(text, place)
    assert opened is not None
    found = WORD.match(text, opened.end())
    return found.group() if found else text[opened.end() : opened.end() + 1]


def _is_small(word: str) -> bool:
    """Whether it begins with a small letter, and not as iPhone does."""
    return word[:1].islower() and not word[1:2].isupper()


def _belongs(word: str, before: str, follows: str) -> bool:
    """Whether the full stop behind `word` belongs to it, and ends no sentence."""
    if word.isdecimal():
        return _is_ordinal(word, before, follows)
    small = word.lower()
    known = small not in CAPITALISED or word[:1].isupper()
    if (small in TITLES and known) or small in BEFORE_MORE:
        return True
    if small in BEFORE_NUMBERS and follows[:1].isdecimal():
        return True
    starts = follows in STARTERS or not follows[:1].isalnum()
    if len(word) == 1 and word.lower() != word.upper():
        return _is_initial(word, before, starts)
    return not starts and bool((small in EITHER and known) or DOTTED.fullmatch(word) or ROMAN.fullmatch(word))


def _is_initial(word: str, before: str, starts: bool) -> bool:
    """Whether a letter with a full stop is part of a name or of an abbreviation: "J. R. R.", "z. B."."""
    if word == "I" and before[:1].islower():
        return False  # "So am I."
    named = not before or INITIAL.fullmatch(before) is not None or (word.isupper() and before[0].isupper())
    return named or not starts


def _is_ordinal(word: str, before: str, follows: str) -> bool:
    """Whether a number with a full stop is an ordinal, a day of a date, or the number of an item."""
    if not before:
        return len(word) <= 3  # "1. Open the box."
    if len(word) > 3:
        return False
    if follows.isdecimal() and len(follows) == 3:
        return True  # "77. 000"
    if follows.isdecimal():
        return DAY.fullmatch(before) is not None or before.lower() in BEFORE_ORDINALS
    return before.lower() in BEFORE_ORDINALS or follows.lower() in AFTER_ORDINALS
