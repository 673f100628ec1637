"""Finds the figures of a page that look measured: numbers with a unit, decimals, cells that are a number."""

import re

NUMBER = r"[-+±]?\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"""(?:%|x\b|fold\b|times\b|ms\b|\ s\b|min\b|seconds?\b|minutes?\b|hours?\b
    |(?:k|M|G|Ki|Mi|Gi)?B\b|[kM]?bytes\b|bits?\b|BLEU\b|chrF|nats\b|[GT]FLOP|M\b|(?:million|M)\ parameters\b
    |(?:sentences|tokens|lines|answers|words|frames|requests|updates)(?:/s|\ a\ second)\b)"""
BEFORE, AFTER = r"(?<![\w.,/:^-])", r"(?![\w/]|[.,]\d|-[a-z])"
CHAIN = rf"{NUMBER}(?:(?:,|\ to|\ and|\ or|\ against|\ of|\ \+)\ {NUMBER})*"
MEASURED = re.compile(
    rf"""{BEFORE}(?:{CHAIN}\s?-?{UNIT}               # 33 to 37 ms
       |\d+(?:,\d{{3}})+(?:\.\d+)?{AFTER}                # 10,000
       |[-+±]?\d+\.\d+{AFTER}                       # 0.82
       |x\ {NUMBER}{AFTER})                         # x 1.5
     |(?<=\|)\ \**[-+]?\d[\d,.]*\**\ (?=\|)         # a cell that is a number""",
    re.VERBOSE,
)
NO_PROSE = re.compile(
    r"""^(`{3,}|~{3,}).*?^\1`*\s*?$                 # a block of code, a directive
      |(?:(?<=\n\n)|(?<=\A))(?:\ {4}[^\n]*\n+)+     # an indented block
      |<!--\ results\ of.*?<!--\ end\ -->           # a table that a program writes
      |<!--.*?-->
      |\$\$.*?\$\$|\$[^$\n]+\$                      # mathematics
      |``.+?``|`[^`\n]+`                            # code
      |\]\([^)\n]*\)                                # the target of a link
      |^\#+\ [^\n]*                                 # a heading
      |\b(?:section|sections|equation|Python|PyTorch)\s[\d.]+(?:\sand\s[\d.]+)?""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
SHOWN = re.compile(r"(?:(?<=\n\n)|(?<=\A))(?:    [^\n]*\n+)+")
WINDOW = 40  # characters around a figure in a message


def prose(text: str) -> str:
    """The text with blanks, of the same length, where nothing is claimed in prose."""
    return NO_PROSE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def rounds_to(shown: str, number: str) -> bool:
    """True if a shown number is this one, or has more digits and rounds to it."""
    digits = len(number.partition(".")[2])
    return shown == number or (
        0 < digits < len(shown.partition(".")[2]) and f"{float(shown):.{digits}f}" == number
    )


def loose_figures(text: str, held: list[tuple[int, int]], *, executed: bool = False) -> list[str]:
    """The figures of a page that are in none of the spans, each with its line.

    `executed`: tests run the commands of the page, so a figure that their output shows is held by it.
    """
    shown = re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", "".join(SHOWN.findall(text))) if executed else []
    found = []
    for match in MEASURED.finditer(prose(text)):
        loose = [
            number[0]
            for number in re.finditer(r"\d+(?:,\d{3})*(?:\.\d+)?", match[0])
            if not any(rounds_to(each, number[0]) for each in shown)
            and not any(
                begin <= match.start() + number.start() and match.start() + number.end() <= end
                for begin, end in held
            )
        ]
        if loose:
            line = text.count("\n", 0, match.start()) + 1
            around = text[max(0, match.start() - WINDOW) : match.end() + WINDOW]
            found.append(f"line {line}: {', '.join(loose)} in {' '.join(around.split())!r}")
    return found
