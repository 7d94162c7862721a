"""Which encoding a file's text is in: sure, or said to be unsure. Never a guess that new text would be written in.

Sure are a byte-order mark, valid UTF-8, UTF-16 told by its zero bytes, what the text declares, UTF-8 with a few stray
bytes, Chinese by its frequent characters, and Latin text by the alphabets of its languages. All else is kept as bytes:
there an edit may touch ASCII only, which is the same in every encoding that extends ASCII.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tools.declared import declared_codec
from tools.file_kind import kind_of
from tools.single_byte import plausible_codecs

_UTF_8_MARK = codecs.BOM_UTF8
_SAMPLE_RUNS_MAX = 20_000  # runs of non-ASCII bytes looked at: more would not change the answer
_CONTROL = re.compile("[\x00-\x08\x0e-\x19\x1c-\x1f]")  # not those of white space and of terminal colours

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")  # DOS ends a text with 1A

_SHIFTED = re.compile(rb"\x1b(?:\$[@AB(]|\([BIJ])")  # of ISO-2022
_STATEFUL = ("iso2022", "utf_7", "utf-7", "hz", "utf-16", "utf_16", "utf-32", "utf_32", "idna", "punycode")

_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_UTF_8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_GB_2312_PAIR = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]")
# About half of the characters of any Chinese text are among these. Bytes of another encoding that happen to read as
# Chinese give characters from everywhere, so that few are.
_FREQUENT_CHINESE = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种"
    "事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民"
    "第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月"
    "话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变"
    "四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼"
    "书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切"
    "码函返值串型参参输读写试错误配置注释行列新增删除改查符号循环测默认状态返调编译示例接口库存储缓线程请求响应"
)
_FREQUENT_SHARE_MIN = 0.35
_FREQUENT_COUNT_MIN = 3


@dataclass(frozen=True)
class Encoding:
    """`name` is for people. `codec` converts to and from text; None where the bytes are worked on as they are.

    With `ascii_only` the encoding is not sure: bytes from 0x80 on may be neither matched nor written. `also` are
    codecs that always fit as well: new text must be the same bytes in all of them. `is_guess` says that others may
    fit, too, which depends on the text.
    """

    name: str
    mark: bytes = b""
    codec: str | None = None
    ascii_only: bool = False
    also: tuple[str, ...] = ()
    is_guess: bool = False


UTF_8 = Encoding("UTF-8")
UTF_8_MARKED = Encoding("UTF-8 with a mark", _UTF_8_MARK)
UTF_8_STRAY = Encoding("UTF-8 with bytes that are not")
UNSURE = Encoding("not certain", ascii_only=True)

_MARKS = (
    UTF_8_MARKED,
    *(
        Encoding(f"UTF-16 {e}", m, c)
        for e, m, c in (
            ("little-endian", codecs.BOM_UTF16_LE, "utf-16-le"),
            ("big-endian", codecs.BOM_UTF16_BE, "utf-16-be"),
        )
    ),
)
_UNMARKED_UTF_16 = (
    Encoding("UTF-16 little-endian without a mark", codec="utf-16-le"),
    Encoding("UTF-16 big-endian without a mark", codec="utf-16-be"),
)
_CHINESE = (Encoding("GBK", codec="gbk"), Encoding("GB18030", codec="gb18030"))
_WESTERN = Encoding("ISO-8859-1 or like it", codec="latin-1", also=("cp1252", "iso8859-15"), is_guess=True)
_LATIN = {
    codec: Encoding(name, codec=codec, is_guess=True)
    for codec, name in {
        "cp1252": "Windows-1252",
        "cp850": "CP850 of DOS",
        "mac_roman": "Mac OS Roman",
        "cp1250": "Windows-1250",
        "iso8859-2": "ISO-8859-2",
        "cp1254": "Windows-1254",
        "cp1257": "Windows-1257",
    }.items()
}
_ALL = (*_MARKS, UTF_8, UTF_8_STRAY, UNSURE, *_UNMARKED_UTF_16, *_CHINESE, _WESTERN, *_LATIN.values())
_BY_NAME = {encoding.name: encoding for encoding in _ALL}
_PLAIN = (UTF_8, UTF_8_MARKED)  # what a text in these becomes tells itself what it is


def encoding_of(data: bytes) -> Encoding | None:
    """The encoding of a whole file; None for what is no text."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return None
    for marked in _MARKS:
        if data.startswith(marked.mark):
            return marked if marked.codec is None else _if_text(marked, data)
    if b"\0" in data:
        return next((found for one in _UNMARKED_UTF_16 if (found := _if_text(one, data, ascii_min=0.5))), None)
    if data.isascii():
        return _of_ascii(data)
    if is_utf_8(data):
        return UTF_8
    if kind_of(data[:64]) not in ("", "a BMP image") or _BINARY.search(data):  # "BM" may begin a text, too
        return None
    declared = _declared(data)
    if declared is not None:
        return declared
    runs = high_runs(data)
    if _is_stray_utf_8(data, runs):
        return UTF_8_STRAY
    if _is_chinese(data, runs):
        return next((one for one in _CHINESE if _converts(one, data)), UNSURE)
    latin = _latin(data, runs)
    return latin if latin is not None and _converts(latin, data) else UNSURE


def remembered_name(encoding: Encoding) -> str:
    """What to keep of an encoding so that it is still known when the text has changed; '' where that is not needed."""
    return "" if encoding in _PLAIN else encoding.name


def remembered(name: str) -> Encoding | None:
    """The encoding that a kept name means."""
    return _BY_NAME.get(name) or _of_codec(name)


def high_runs(data: bytes) -> list[tuple[int, int]]:
    """Where bytes from 0x80 on stand, as (start, end); a sample where there are very many."""
    return [found.span() for found in islice(_HIGH_RUN.finditer(data), _SAMPLE_RUNS_MAX)]


def _of_ascii(data: bytes) -> Encoding:
    """ASCII may be the beginning of anything: new text is written in what the file declares."""
    if _SHIFTED.search(data):
        return UNSURE  # some of its bytes stand for other characters than their ASCII ones
    declared = _declared(data)
    return UTF_8 if declared is None else declared


def _declared(data: bytes) -> Encoding | None:
    """What the text says of itself, provided that it is so; UTF-8 is none, since that shows."""
    codec = declared_codec(data)
    if codec is None or codec in ("utf-8", "ascii", "utf-8-sig"):
        return None
    encoding = _of_codec(codec)
    return encoding if encoding is not None and _converts(encoding, data) else None


def _of_codec(codec: str) -> Encoding | None:
    """None for one that is no text encoding, or writes a character in another way than ASCII or where it stands."""
    try:
        extends_ascii = bytes(range(0x20, 0x7F)).decode(codec) == "".join(map(chr, range(0x20, 0x7F)))
        return Encoding(codec, codec=codec) if extends_ascii and not codec.startswith(_STATEFUL) else None
    except (LookupError, UnicodeError):
        return None


def is_utf_8(data: bytes) -> bool:
    if data.isascii():  # ten times as fast as decoding
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _if_text(encoding: Encoding, data: bytes, ascii_min: float = 0) -> Encoding | None:
    """The encoding, when everything decodes without control characters, and so large a part of it is ASCII."""
    if not _converts(encoding, data):
        return None
    text = data[len(encoding.mark) :].decode(encoding.codec or "utf-8")
    if _CONTROL.search(text) or sum(character < "\x80" for character in text[:100_000]) < ascii_min * len(text):
        return None
    return encoding


def _converts(encoding: Encoding, data: bytes) -> bool:
    """Whether all of it can be converted to text and back without loss."""
    body, codec = data[len(encoding.mark) :], encoding.codec or "utf-8"
    try:
        return body.decode(codec).encode(codec) == body
    except UnicodeError:
        return False


def _is_stray_utf_8(data: bytes, runs: list[tuple[int, int]]) -> bool:
    """UTF-8 with single bytes of something else in it: most of what is not ASCII is UTF-8."""
    good = stray = 0
    for start, end in runs:
        rest, count = _UTF_8_CHARACTER.subn(b"", data[start:end])
        good += count
        stray += len(rest)
    return good > stray


def _is_chinese(data: bytes, runs: list[tuple[int, int]]) -> bool:
    """Pairs of bytes in the form of GB 2312, among them enough of the frequent characters, and no Japanese kana."""
    even = [data[start:end] for start, end in runs if (end - start) % 2 == 0]
    if len(even) < 0.9 * len(runs):
        return False
    pairs = [pair for run in even for pair in _pairs(run)]
    formed = [pair for pair in pairs if _GB_2312_PAIR.fullmatch(pair)]
    if len(formed) < 0.9 * len(pairs):
        return False
    signs = [pair for pair in formed if pair[0] >= 0xB0]
    kana = sum(pair[0] in (0xA4, 0xA5) for pair in formed)
    frequent = sum(pair.decode("gbk", "replace") in _FREQUENT_CHINESE for pair in signs)
    return frequent >= max(_FREQUENT_COUNT_MIN, _FREQUENT_SHARE_MIN * len(signs)) and kana <= 0.1 * len(formed)


def _pairs(run: bytes) -> Iterator[bytes]:
    return (run[index : index + 2] for index in range(0, len(run), 2))


def _latin(data: bytes, runs: list[tuple[int, int]]) -> Encoding | None:
    """Single letters beside ASCII ones, as in languages written in Latin: long runs are Cyrillic, Greek or Asian."""
    beside = sum(
        end - start == 1 and (data[start - 1 : start].isalpha() or data[end : end + 1].isalpha()) for start, end in runs
    )
    if beside < 0.5 * len(runs) or sum(end - start <= 2 for start, end in runs) < 0.9 * len(runs):
        return None
    codec = next(plausible_codecs(data, runs), None)
    if codec == "cp1252" and not any(0x80 <= byte < 0xA0 for start, end in runs for byte in data[start:end]):
        return _WESTERN
    return _LATIN[codec] if codec else None
