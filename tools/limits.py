"""Bounds of the file and search tools, each with its reason. Bytes are bytes of UTF-8 text unless said otherwise."""

from __future__ import annotations

READ_LINES_MAX = 2_000  # more lines than a model uses at once
READ_BYTES_MAX = 50 * 1024  # about 13k tokens: more would push out the task itself
LINE_CHARACTERS_MAX = 2_000  # minified files: a longer line is data, not text to be read

CHANGE_BYTES_MAX = 512 * 1024 * 1024  # Edit and Write hold old and new content in memory
TOLERANT_BYTES_MAX = 4 * 1024 * 1024  # a match that is not exact: text work in Python, about 50 ms a megabyte
DECODED_BYTES_MAX = 64 * 1024 * 1024  # Read of what is not UTF-8: as a whole, with several copies in memory
IMAGE_BYTES_MAX = 15 * 1024 * 1024 // 4  # 5 MiB in base64, the most that some services take
KEEP_BYTES_MAX = 16 * 1024 * 1024  # old contents kept for a revert: above, the transcript folder would swell
RECHECK_BYTES_MAX = 8 * 1024 * 1024  # hashed at resume when only the times differ: above, a resume would feel slow

GLOB_PATHS_MAX = 100
GREP_BYTES_MAX = 30 * 1024  # about 8k tokens
GREP_LINE_CHARACTERS_MAX = 500  # a longer line is shown as a window around its match
GREP_WINDOW_CHARACTERS = 200  # on each side of the match
SEARCH_SECONDS_MAX = 20.0  # a search that takes longer wants a narrower path
GREP_KEPT_BYTES_MAX = 4 * 1024 * 1024  # kept for sorting; what comes after is only counted
SEARCH_BYTES_MAX = 128 * 1024 * 1024  # output of ripgrep that is looked at before we stop it

DIFF_PREVIEW_LINES_MAX = 400  # the permission question
DIFF_RESULT_LINES_MAX = 40  # what the model gets back: it wrote the change itself
DIFF_LINE_CHARACTERS_MAX = 300
DIFF_COMPARED_LINES_MAX = 1_000  # difflib is quadratic: larger blocks are shown as removed and added
CHUNK_BYTES = 1024 * 1024  # one read of a stream
WRITE_BYTES = 8 * 1024 * 1024  # of a new content, after which the device may begin

TODOS_MAX = 100
NAME_BYTES_MAX = 255  # NAME_MAX of Linux file systems
