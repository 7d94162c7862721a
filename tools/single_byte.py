"""Which one-byte encoding a Latin text is in, told by the alphabets of languages.

The same byte is `ã` in one encoding, `Æ` in another and `ă` in a third. A reading is plausible when its letters belong
to the alphabet of one language that is written in that encoding, and stand where letters stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Run = tuple[int, int]  # of bytes from 0x80 on: from one position up to another

_WESTERN = (
    "àâæçéèêëîïôœùûüÿ",  # French
    "äöüß",  # German
    "áéíóúüñ",  # Spanish
    "áâãàçéêíóôõúü",  # Portuguese
    "àèéìíîòóùú",  # Italian
    "àçèéíïòóúü",  # Catalan
    "áäèéêëíïóöúü",  # Dutch
    "åäöé",  # Swedish, Finnish
    "æøåéèêòô",  # Danish, Norwegian
)  # without Icelandic, whose ð, ý and þ are the ğ, ı and ş of Turkish, which is far more likely
_CENTRAL = (
    "ąćęłńóśźż",  # Polish
    "áäčďéěíĺľňóôŕřšťúůýž",  # Czech, Slovak
    "áéíóöőúüű",  # Hungarian
    "ăâîşţ",  # Romanian
    "čćđšž",  # Croatian, Slovenian
)
_TURKISH = ("âçğıîöşûü",)
_BALTIC = ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž")  # Lithuanian, Latvian, Estonian

_ALPHABETS = {
    "cp1252": _WESTERN,
    "cp850": _WESTERN,
    "mac_roman": _WESTERN,
    "cp1250": _CENTRAL,
    "iso8859-2": _CENTRAL,
    "cp1254": _TURKISH,
    "cp1257": _BALTIC,
}
_SYMBOLS = frozenset("°§±µ«»¿¡£€–—‘’“”„…•·©®™²³½¼¾×÷ªº¹¶¥¢†‡‹›´¨\xa0\xad")
_WITHIN_WORDS = frozenset("’·\xad")  # apostrophe, the middle dot of Catalan, soft hyphen
_ASCII_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def plausible_codecs(data: bytes, runs: Sequence[Run], new_text: str = "") -> Iterator[str]:
    """The codecs in which the text may be, the likeliest first; with a text that is to be added, also with that."""
    new_letters = {_lower(character) for character in new_text if character > "\x7f" and character.isalpha()}
    for codec, alphabets in _ALPHABETS.items():
        letters = _letters(data, runs, codec)
        if letters and any((letters | new_letters).issubset(alphabet) for alphabet in alphabets):
            yield codec


def _letters(data: bytes, runs: Sequence[Run], codec: str) -> set[str] | None:
    """The letters of a reading, in lower case; None when it cannot be the right one."""
    letters: set[str] = set()
    count = misplaced = 0
    for start, end in runs:
        try:
            text = data[start:end].decode(codec)
        except UnicodeDecodeError:
            return None
        before, after = data[start - 1 : start], data[end : end + 1]
        in_word = bool(before) and before[0] in _ASCII_LETTERS and bool(after) and after[0] in _ASCII_LETTERS
        for character in text:
            if character in _SYMBOLS:
                if in_word and character not in _WITHIN_WORDS:
                    return None
            elif character.isalpha():
                count += 1
                misplaced += character.isupper() and before.islower()
                letters.add(_lower(character))
            else:
                return None
    return letters if 3 * misplaced <= count else None  # a capital within a word: once in a while, as in camelCase


def _lower(character: str) -> str:
    return character.lower()[0]  # the dotted capital I has a lower case of two characters
