"""The edit cases of other agents: right, or refused on purpose and unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.edit_cases import CASES, EditCase
from tests.tools.files_kit import Files
from tools.base import CallRefused, ErrorCode


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.suite}: {case.name}")
def test_what_comes_of_an_edit(tmp_path: Path, case: EditCase) -> None:
    files, path = Files(tmp_path), tmp_path / "d" / "f.txt"
    before = None if case.before is None else case.before.encode()
    if before is not None:
        files.put("d/f.txt", before)
        files.text("Read", file_path="d/f.txt")
    done = files.call(
        "Edit", file_path="d/f.txt", old_string=case.old, new_string=case.new, replace_all=case.replace_all
    )
    after = path.read_bytes() if path.exists() else None
    if isinstance(case.after, ErrorCode):
        assert (isinstance(done, CallRefused) and done.code, after) == (case.after, before)
    else:
        assert after == case.after.encode(), done


def test_every_refusal_on_purpose_has_its_reason_and_no_other_case_has_one() -> None:
    plain = {"a file that is not there", "both texts the same", "both texts empty", "a text that is not there"}
    plain |= {"several places", "words that are not there"}  # the other agents refuse these as well
    refused = {case.name for case in CASES if isinstance(case.after, ErrorCode)}
    assert {case.name for case in CASES if case.why} == refused - plain
    assert len({(case.suite, case.name) for case in CASES}) == len(CASES)
