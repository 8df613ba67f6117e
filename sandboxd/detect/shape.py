"""What does a line look like, when no pack knows it?

Families of shapes, not programs: how prompts end, how progress and headings end, which words ask for a secret, which glyphs
draw a menu. Everything here looks at no more than a few hundred characters, and every pattern is linear.
"""

from __future__ import annotations

import re
from typing import Final

from sandboxd.detect.view import View
from sandboxd.hitl.answer import AnswerForm, Choice

_TAIL: Final = 400  # characters of a line that shapes look at: a question is at its end
GENERIC: Final = "generic"
_ASKED_ROWS: Final = 3
_BANNER_ROWS: Final = 8
_FIELD_MAX: Final = 40  # characters of a field's name, behind which no blank needs to stand
_SIGN_MAX: Final = 6  # characters of a bare sign: `...`, `?-`, `   ...>`

_SECRET: Final = re.compile(
    r"(?i)pass ?-?(?:word|phrase|code)|passwd|\b(?:pass|pins?|puk|secrets?|token|credentials?|otp|clave)\b|one[- ]time"
    r"|(?:api|access|private|secret|encryption|master|recovery|unseal|vault|deploy)[ _-]?key"
    r"|(?:verification|authentication|security|2fa|mfa) code"
    r"|passwort|kennwort|schlüsselphrase|mot de passe|phrase (?:de passe|secrète)|contraseña|frase (?:de acceso|secreta)"
    r"|\bsenha|palavra-passe|\bparola|wachtwoord|lösenord|lösenfras|adgangskode|passord|salasana|hasło|heslo|jelszó|şifre"
    r"|will not be (?:echoed|shown|displayed)"
    r"|парол|パスワード|パスフレーズ|暗証|密码|密碼|口令|비밀번호|암호"
)
# `(y/N) ‣ false`: what stands behind the answers is the default.
_ONE_OF_TWO: Final = re.compile(r"(?i)(?P<shown>\([yn]/[yn]\))\s[^\w\s]?\s?\w{0,5}$")
_MASKED: Final = re.compile(r"(?i)[\[(](?:(?:your )?input (?:is |will be )?)?(?:masked|hidden)[\])]\s?[:?]?\s?$")
_ABOUT: Final = re.compile(
    r"(?i)(?:password|passphrase|token|secret|key|pin) (?:name|length|file|path|id|type|hint|manager|expir|policy)"
)
_YES: Final = r"(?:yes|y|ja|j|s[ií]m?|s|oui|o|tak|t|kyllä|k|igen|i|ano|a|da|d|да|д|evet|e|ναι|ν|はい|是|예|네)"
_NO: Final = r"(?:nein|nee|nej|nei|non|nie|não|nem|ne|nu|no|n|ei|e|нет|ні|н|hayır|h|όχι|ο|いいえ|否|아니[요오])"
_YES_NO: Final = re.compile(
    rf"(?i)(?:[\[(<]\s?[\[(]?{_YES}[\])]?(?:[/|,]|\sor\s)?\s?[\[(]?{_NO}[\])]{{1,2}}"
    r"|\b(?:yes/no|y/\(n\)|\(y\)/n|y/n\b))\S{0,3}\s?$"
)
# An interpreter says who it is before it shows its sign.
_BANNER: Final = re.compile(
    r"(?i)\b(?:type|enter|use|try)\b.{0,60}\bhelp\b|\bfor (?:more )?(?:help|information)\b"
    r"|\bcopyright\b|\bversion \d|^welcome to\b"
    r"|^[a-z]{2,12} v?\d+\.\d+.{0,90}(?:\bon \w+|\))$|\binteractive (?:shell|mode|console|session)\b"
)
_PRESS: Final = re.compile(
    r"(?i)\b(?:press|hit|strike|type|push) (?:the )?[<\[\"']?(?:enter|return|any key|any other key|space)\b"
    r"|\[(?:enter|return)\]\s?$|eingabetaste|beliebige taste|touche entrée|appuyez sur|pulse (?:intro|enter)|presione"
    r"|任意の?键|任意のキー|아무 키|\benter ?(?:キー|键|鍵|키)|(?:enter|return)[- ]?taste"
    r"|клавишу|wciśnij|naciśnij|premi(?:re)? (?:invio|un tasto)|tryck (?:på )?(?:enter|retur)"
    r"|druk op|pressione (?:enter|qualquer)"
)
_OR_ENTER: Final = re.compile(
    r"(?i)\bor,? (?:just )?(?:press|hit) [<\[]?(?:enter|return)\b"
    r"|\b(?:press|hit) [<\[]?(?:enter|return)[>\]]? (?:to (?:skip|leave|keep|use|accept)|for (?:the )?(?:default|none))"
)
_STOPS: Final = re.compile(r"(?i)\bkey,? to (?:cancel|abort|stop|interrupt|skip)\b")  # what goes on unless a key is pressed
# Something has been said, and goes on: a percentage, a rate, a duration, a bar, dots.
_PROGRESS: Final = re.compile(
    r"(?i)(?:(?<![\w-])\d{1,3}(?:[.,]\d{1,3})? ?%|\d ?(?:[kmgt]i?)?b(?:/s)?|\d ?(?:it|ops|files?|rows?)/s|\d ?m?s"
    r"|\d:\d\d|\d/\d+|\.\.\.|…|[=#>-]{5,}\]?|[=#.>-]{5,}\]|\s[|/\\-]|eta \S+)\s?$"
)
# A bar or a share with what it is about behind it: `[==>   ] 10/100: foo?`, `45% (9/20)`.
_COUNTED: Final = re.compile(
    r"\[[=#.> -]{5,60}\]\s{0,2}\d{1,9}/\d{1,9}\b|(?<![\w-])\d{1,3}(?:[.,]\d{1,3})? ?%\s{1,4}[(\[]\d{1,9}/\d{1,9}[)\]]\s?$"
)
_SPINNER: Final = re.compile(r"^\s?(?:[\u2800-\u28ff◐-◓▁-█▓▒░]|[-\\|/]\s\S.{0,200}[^?:\s]\s?$)")
# `Resuming: ` says what is being done; the nouns and adjectives that end alike do not.
_GERUND: Final = re.compile(
    r"^\W{0,3}(?!(?i:anything|something|nothing|everything|string|setting|ring|king|thing|during|remaining|missing|billing|shipping"
    r"|mailing|working|staging|building|warning|existing|being|using|starting|ending|encoding|meeting|rating|heading|spelling"
    r"|landing|opening|closing|routing|marketing|mapping|logging|listening|binding|padding|pricing|training|housing|spacing"
    r"|timing|sibling|ceiling|evening|morning|pending|outgoing|incoming|following|matching)\b)[A-Za-z][a-z]{2,14}ing\b(?! - )"
)
# What is told at the end of a line that goes on later: sums and steps, which read like a field's name.
_REPORT: Final = re.compile(
    r"(?i)^\W{0,3}(?:(?:sub)?totals?|elapsed|eta|progress|epoch|duration|(?:step|stage|phase|pass) \d"
    r"|загрузка|установка|проверка|копирование|распаковка|скачивание|téléchargement|copie de|extraction|descargando|instalando"
    r"|copiando|baixando|scaricamento|herunterladen|installiere|kopiere|entpacke[nr]?|lade|prüfe)\b"
)
_RECORD: Final = r"[\w.-]{1,30}\s{1,20}\| |(?:test )?[\w./-]{1,80}::\w"  # a service's name before its record; a test's name
_LOG: Final = re.compile(
    r"(?i)^(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|\[\d(?!\d{0,3}/\d{1,4}\])"
    r"|\[?(?:info|debug|warn(?:ing)?|error|fatal|trace|notice|note|hint|usage|e|w|i)\b\]?:? "
    r"|" + _RECORD + ")"
)
_CODE: Final = re.compile(
    r"[;{}]\s?$|^\s{0,40}(?:def|class|if|for|while|else|return|import|var|let|const)\b|[=(]\s?[\"'].{0,200}[\"']\)?\s?$"
)

_SHELL: Final = re.compile(r"(?:^|[\w\])~/:. -])[$#%]\s?$|[❯❱➜λ»▶⟩→]\s?$|^\s{0,4}›\s?$")
_REPL: Final = re.compile(
    r"^(?:\S.{0,60})?(?:>{1,3}|\*>|\)|\d\]|[=\-(\['\"]#|[=\-(]>|\?-|[a-z\])]\))\s?$|^\s{0,8}(?:\.{3}[>:]?|['\"`-]>)\s?$|^\s{0,4}[>:*?=+-]{1,4}\s$|^[;.\]]\s$"
)
_NAMED_REPL: Final = re.compile(
    r"^(?:\(?[A-Za-z][\w .:@/()\[\]=-]{0,50}>{1,2}|\([A-Za-z][\w.-]{0,20}\)|[a-z][\w.-]{0,30}[=\-(]#|\?[-#]"
    r"|\s{0,4}\w{1,12}<{1,2}\d{1,6}>{1,2})\s?$"
)
_COUNTING_REPL: Final = re.compile(r"^\[\d{1,6}\] \w[\w:.-]{0,30}\([^()]{0,40}\)[>*]\s$")  # `[1] pry(main)> `
_ASKS_ABOVE: Final = re.compile(
    r"(?i)[?？]\s?$"
    r"|^\W{0,4}(?:please )?(?:type|enter|press|choose|select|input|provide|specify|pick|paste|give|insert|tell)\b"
    r"|(?:enter|type|press|choose|select|input)\b[^.]{0,80}[:.…]{1,3}\s?$"
)
_ASKS_FIRST: Final = re.compile(r"\S{0,3}\?\]?\s\S")  # `? Name`, as a whole family of libraries draws its questions
_ENDS_NOTED: Final = re.compile(
    r"[?:：]\s{0,2}[\[(][^\[\]()]{0,80}[\])]\s?$|[?)] \[\w(?:[,/][\w?]){1,20}\]\s$|\? \[[^\[\]]{1,80}\]\s$|\(\? for help\)\s$"
)
_ENDS_DEFAULT: Final = re.compile(r"^[A-Z][^\[\]:]{2,60}\w \[[\w./@~-]{1,40}\]\s$")  # `Use proxy [no] `
_ENDS_DRAWN: Final = re.compile(r"[?？] [^\w\s()\[\]<>{}:;,.|/\\=-]{1,4}\s$")  # a question mark, and then a picture
_ENDS_POINTED: Final = re.compile(r"[\w\])\"'] [›❯❱▸▶➤⟩]\s$")
_FILLED: Final = re.compile(r"\w[:?›‣»] \S{1,60}$")  # a question with its default behind it
_COLON: Final = re.compile(r"[\w)\]}\"'>»%。、ー*.:#]\s{0,8}[:：]$")
_CLOSED: Final = re.compile(r"[\])}]\s?[:：]$")  # a note in brackets and a colon: asked, even where no blank follows
_ORDER: Final = re.compile(
    r"^\W{0,4}(?:please )?(?i:enter|type|choose|select|input|provide|specify|pick|insert) (?:[\w'/-]{1,30} ?){1,8}\s$"
)

_POINTER_ROW: Final = re.compile(r"^[\s│|┃]{0,6}(?:[❯›»➤►▸▶☞●◉◯○◻◼☐☑⬢⬡◆◇■□]|>\s|\*\s|[>*]?\s?[\[(][ xX*✓✔]?[\])]\s)\s?\S")
_MENU_WORDS: Final = re.compile(
    r"(?i)arrow[- ]keys|use (?:the )?(?:arrows|shortcuts|space)|↑.{0,3}↓|(?:to|[↑↓]) navigate\b|<space>"
    r"|space(?:bar)? (?:to )?(?:select|toggle)"
    r"|⏎ (?:select|submit)|enter to (?:confirm|select|submit)|press space|↵|ctrl[+-][a-z] .{0,20}(?:exit|save)"
)
_PAGER: Final = re.compile(
    r"(?i)^\s?--\s?(?:more|mehr|plus|más)\s?--|^\s?:$|^\(?end\)?\s?$|\(end\)\s?$|^lines? \d+[-/]\d+"
    r"|\(press h for help[^)]{0,40}\)\s?$|press (?:space|q) (?:to|for)\b[^:?]{0,60}$"
    r"|^\s?(?:standard input|manual page)\b.{0,80}\bline \d"
)
_MATCHES: Final = re.compile(r"^\s{0,4}\d{1,9}/\d{1,9}(?: \(\d{1,9}\))?[\s─━]{0,200}$")  # `2/100`, as finders count what fits
_FIELD_SIGN: Final = re.compile(r"\s{0,4}[^\w\s>?│|┃]\s")  # before each field of a form, alike
_POINTS_BELOW: Final = frozenset((">", "->", "=>", "»", "›", "#?"))  # signs below a field's name or a list
_CHOICE_ROW: Final = re.compile(r"\s{0,4}(?:\d{1,2}[).]|\[\w{1,8}\])\s{1,4}\S")  # `1) red`, `[0] mysql`
_KEY_LIST: Final = re.compile(r"(?i)(?:press|hit) [\"'<\[]?(?:[a-z0-9?]|enter|space|esc)[\"'>\]]? to\b")
_SUBMITS: Final = re.compile(r"(?i)(?:enter|return|⏎) (?:to )?(?:confirm|submit|accept)")
_FRAME: Final = re.compile(r"[│┃║╭╮╰╯┌┐└┘├┤╔╗╚╝▊▎]")

_DEFAULT: Final = re.compile(
    r"(?:\[(?P<square>[^\[\]]{1,80})\]|\((?:(?i:default)(?:s to|:|=| is)?\s?)?(?P<round>[^()]{1,80})\))\s?[:?›>]?\s?$"
)
_LIST: Final = re.compile(
    r"(?<!\) )[\[(](?!e\.?g)(?P<list>[A-Za-z][\w+-]{0,20}(?:/[A-Za-z][\w+-]{0,20}){1,15}"
    r"|[A-Za-z][\w+-]{0,20}(?:\|[A-Za-z][\w+-]{0,20}){1,15}"
    r"|[A-Za-z][\w+-]{0,20}(?:, [A-Za-z][\w+-]{0,20}){1,15})[\])](?:\s?[\[(][^\[\]()]{1,40}[\])])?\s?[:?>]\s?$"
)
_CAPITAL: Final = re.compile(r"[\[(]\W?([A-Za-z]+)\W{1,3}([A-Za-z]+)\W{0,2}[\])]")


def tail(line: str) -> str:
    """The part of a line that shapes look at."""
    return line[-_TAIL:]


def asks_secret(text: str) -> bool:
    """Whether the words ask for something that is hidden, and not merely about it."""
    text = tail(text)
    if _MASKED.search(text):
        return True
    return _SECRET.search(text) is not None and _YES_NO.search(text) is None and _ABOUT.search(text) is None


def is_press_enter(text: str) -> bool:
    """Whether any key, or Enter alone, goes on; not where Enter is what leaves the question at its default."""
    text = tail(text)
    return _PRESS.search(text) is not None and _OR_ENTER.search(text) is None


def is_progress(line: str) -> bool:
    """Whether the line tells what goes on: spinners, percentages, rates, `Doing this: `."""
    text = tail(line)
    bare = text.rstrip()
    if len(bare) <= _SIGN_MAX:
        return bare in ("|", "/", "-", "\\") or _SPINNER.search(text) is not None
    if _SPINNER.search(text):
        return True
    if is_press_enter(text) or _MASKED.search(text):
        return False
    if _COUNTED.search(text):
        return True
    if bare.endswith(("?", "？", "?...")):
        return _GERUND.search(text) is not None and "[" not in text
    return _PROGRESS.search(text) is not None or (_GERUND.search(text) is not None and _YES_NO.search(text) is None)


def is_heading(line: str) -> bool:
    """Whether the line can be nothing but progress, even where somebody waits for whole lines: `Resuming: `, `⠙ …`, `40%`."""
    text = tail(line)
    return _SPINNER.search(text) is not None or (is_progress(text) and (_GERUND.search(text) is not None or "%" in text[-3:]))


def is_driven(view: View) -> bool:
    """Whether a script says that it talks to the program itself, as expect does with `spawn PROGRAM`."""
    return any(row.startswith("spawn ") for row in (*view.rows, view.above))


def is_log(line: str) -> bool:
    """Whether the line is a record or a piece of source text."""
    text = tail(line)
    return _LOG.search(text) is not None or _CODE.search(text) is not None


def is_record(line: str) -> bool:
    """Whether the line is what a service or a test says, whatever it ends in."""
    return re.match(_RECORD, line[:_TAIL]) is not None


def asks_above(row: str) -> bool:
    """Whether a line that has ended still asks: a question mark, `[y/n]`, `Type the name …`."""
    text = tail(row)
    return bool(text.strip()) and (_ASKS_ABOVE.search(text) or _YES_NO.search(text)) is not None and not is_log(row)


def asks_still(row: str) -> bool:
    """Whether a line further up is a question for its looks alone, and no heading of what stands below it."""
    return asks_above(row) or (len(row.rstrip()) <= _FIELD_MAX and is_prompt(row))


def menu_reason(view: View) -> str:
    """Why this is a menu or a screen of keys, which no line of text answers; empty: it is none. Only for raw mode."""
    line = tail(view.line)
    if view.full_screen:
        return view.unknown
    if view.takes_mouse and not (is_prompt(line) or (not line.strip() and asks_above(view.above))):
        return "the mouse is read"
    if view.marks_below and not view.draws_cursor:
        return "a marked choice stands below"
    if view.draws_cursor and view.below and _FIELD_SIGN.match(line) and view.below[0].lstrip()[:1] == line.lstrip()[:1]:
        return "fields of a form stand below"
    if view.hides_cursor and not _reads_text(view):
        return "the cursor is hidden"
    if _PAGER.search(line):
        return "a pager waits for a key"
    if _MENU_WORDS.search(line):
        return "its line names keys"
    if any(_POINTER_ROW.search(row) for row in view.below):
        return "choices with a pointer stand below"
    if any(_MENU_WORDS.search(row) and not _SUBMITS.search(row) for row in view.below[:3]):
        return "keys are named below"
    if any(_MATCHES.search(row) for row in (line, view.above, *view.below[:2])):
        return "matches are counted"
    block = _block(view.rows)
    if line.startswith(" ") and line.strip() and not is_prompt(line) and not is_bare_prompt(line):
        return "choices with a pointer stand above" if any(_POINTER_ROW.search(row) for row in block) else ""
    if not line.strip() and not view.below:
        if sum(1 for row in block if _POINTER_ROW.search(row)) >= 1 and len(block) > 1:
            return "choices with a pointer stand above"
        keys = sum(1 for row in block if _KEY_LIST.search(row))
        if keys > 1 or (keys == 1 and not is_press_enter(block[-1])):
            return "keys are named above"
        if block and _FRAME.search(block[-1][:2]):
            return "a frame stands above"
    return ""


def _reads_text(view: View) -> bool:
    """Whether a line is read although the cursor is hidden.

    Another one is drawn, in a question or in a field of its own; the answer is masked, or one of two; a spinner died.
    """
    if view.draws_cursor:
        is_filled = not view.below and _FILLED.search(tail(view.line)) is not None
        return view.is_field or is_filled or is_prompt(view.line) or is_bare_prompt(view.line)
    if _MASKED.search(tail(view.line)) or (not view.below and _ONE_OF_TWO.search(tail(view.line))):
        return True
    return view.edits and not view.below and is_bare_prompt(view.line)


def _block(rows: tuple[str, ...]) -> tuple[str, ...]:
    """The rows right above the cursor, up to the first blank one."""
    stop = len(rows)
    while stop and not rows[stop - 1].strip():
        stop -= 1
        if stop < len(rows) - 1:
            return ()
    start = stop
    while start and rows[start - 1].strip():
        start -= 1
    return rows[start:stop]


def is_prompt(line: str) -> bool:
    """Whether the line ends as prompts do, for all that text can tell."""
    text = tail(line)
    bare = text.rstrip()
    if not bare or is_progress(text) or is_log(text) or _REPORT.search(text):
        return _COUNTING_REPL.search(text) is not None
    if is_press_enter(text):
        return _STOPS.search(text) is None
    if _YES_NO.search(text) or _MASKED.search(text):
        return True
    is_open = len(bare) < len(text) or text.endswith(("：", "？"))
    if bare.endswith(("?", "？", "?...")):
        return is_open or len(bare) > 6
    if bare.endswith((":", "：")):
        is_field = is_open or len(bare) <= _FIELD_MAX or (_CLOSED.search(bare) or _SECRET.search(text)) is not None
        return is_field and _COLON.search(bare) is not None
    if _NAMED_REPL.search(text):
        return is_open
    if _ASKS_FIRST.match(text):
        return True
    return is_open and any(pattern.search(text) for pattern in (_ENDS_NOTED, _ENDS_DRAWN, _ENDS_DEFAULT, _ENDS_POINTED, _ORDER))


def is_repeated(line: str) -> bool:
    """Whether a question of the same words stands before it in its line: the one before was answered by no terminal."""
    first, _, rest = tail(line).partition(" ")
    return len(first) > 1 and f"? {first} " in rest


def is_bare_prompt(line: str) -> bool:
    """Whether it is a shell's or interpreter's sign, which a transcript may end with as well."""
    text = tail(line)
    return bool(text.strip()) and not _COUNTED.search(text) and (_SHELL.search(text) or _REPL.search(text)) is not None


def is_in_table(view: View) -> bool:
    """Whether the line is the next name of a table, whose row above has its colon in the same column and its value behind."""
    bare = view.line.rstrip()
    column = len(bare) - 1
    return bare.endswith(" :") and re.fullmatch(r"\s{1,8}:\s\S.*", view.above[column - 1 : column + 40]) is not None


def is_introduced(view: View) -> bool:
    """Whether what stands above says that a bare sign is a prompt: a banner, a question that has ended, a field, choices."""
    if view.line.strip() in _POINTS_BELOW and (
        (view.above.rstrip().endswith(":") and is_prompt(view.above))
        or sum(1 for row in view.rows[-_ASKED_ROWS:] if _CHOICE_ROW.match(row)) > 1
    ):
        return True
    return any(asks_above(row) for row in (view.above, *view.rows[-_ASKED_ROWS:])) or any(
        _BANNER.search(tail(row)) for row in view.rows[-_BANNER_ROWS:]
    )


def without_numbers(line: str) -> str:
    """The line with each number as one digit: `[1]> ` and `[12]> ` are the same prompt."""
    return re.sub(r"\d+", "0", tail(line).rstrip())


def form_of(line: str) -> AnswerForm:
    """The kind of question, the answers that it names, and the one that an empty line means."""
    text = tail(line)
    if is_press_enter(text):
        return AnswerForm("press_enter")
    if found := _ONE_OF_TWO.search(text):
        text = text[: found.end("shown")]
    if _YES_NO.search(text):
        return _yes_no(text)
    found = _LIST.search(text)
    if found:
        shown = re.split(r"[/|]|, ", found["list"])
        return AnswerForm("choice", tuple(Choice(each, each) for each in dict.fromkeys(shown)))
    if _SHELL.search(text):
        return AnswerForm("shell")
    is_noted = _ENDS_NOTED.search(text) is not None
    if not is_noted and (_REPL.search(text) or _NAMED_REPL.search(text)):
        return AnswerForm("repl")
    found = _DEFAULT.search(text)
    default = (found["square"] or found["round"]).strip() if found else ""
    return AnswerForm("free_text", (), default if default and " " not in default and len(default) <= 40 else None)


def _yes_no(text: str) -> AnswerForm:
    words = ("yes", "no") if re.search(r"(?i)\byes\b", text[-24:]) else ("y", "n")
    found = _CAPITAL.search(text)
    default = None
    if found and found[1][0].isupper() != found[2][0].isupper():
        default = next(part.lower() for part in found.groups() if part[0].isupper())
    return AnswerForm("yes_no", (Choice(words[0], "Yes"), Choice(words[1], "No")), default if default in words else None)
