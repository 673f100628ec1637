"""The English names of the languages of Whisper, by the codes of its tokens (Radford et al. 2023)."""

_NAMES = """
    en:english zh:chinese de:german es:spanish ru:russian ko:korean fr:french ja:japanese pt:portuguese
    tr:turkish pl:polish ca:catalan nl:dutch ar:arabic sv:swedish it:italian id:indonesian hi:hindi
    fi:finnish vi:vietnamese he:hebrew uk:ukrainian el:greek ms:malay cs:czech ro:romanian da:danish
    hu:hungarian ta:tamil no:norwegian th:thai ur:urdu hr:croatian bg:bulgarian lt:lithuanian la:latin
    mi:maori ml:malayalam cy:welsh sk:slovak te:telugu fa:persian lv:latvian bn:bengali sr:serbian
    az:azerbaijani sl:slovenian kn:kannada et:estonian mk:macedonian br:breton eu:basque is:icelandic
    hy:armenian ne:nepali mn:mongolian bs:bosnian kk:kazakh sq:albanian sw:swahili gl:galician
    mr:marathi pa:punjabi si:sinhala km:khmer sn:shona yo:yoruba so:somali af:afrikaans oc:occitan
    ka:georgian be:belarusian tg:tajik sd:sindhi gu:gujarati am:amharic yi:yiddish lo:lao uz:uzbek
    fo:faroese ht:haitian_creole ps:pashto tk:turkmen nn:nynorsk mt:maltese sa:sanskrit lb:luxembourgish
    my:myanmar bo:tibetan tl:tagalog mg:malagasy as:assamese tt:tatar haw:hawaiian ln:lingala ha:hausa
    ba:bashkir jw:javanese su:sundanese yue:cantonese
    my:burmese ca:valencian nl:flemish ht:haitian lb:letzeburgesch ps:pushto pa:panjabi ro:moldavian
    ro:moldovan si:sinhalese es:castilian zh:mandarin
"""
CODES = {name.replace("_", " "): code for code, name in (each.split(":") for each in _NAMES.split())}


def language_code(language: str) -> str:
    """The code of a language that is given by its name, its code or its token: de for German and <|de|>."""
    word = language.strip().lower().removeprefix("<|").removesuffix("|>")
    return CODES.get(word, word)
