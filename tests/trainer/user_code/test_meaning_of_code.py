"""The digest of what code means: the same however it is written, another one when it does something else."""

from __future__ import annotations

import pytest

from trainwright.trainer.user_code.import_record import meaning_of, meanings_of

CODE = b'''
import torch


class Net(torch.nn.Module):
    """A model."""

    def forward(self, rows):
        return rows * 2  # twice
'''


@pytest.mark.requirement("PHASE-8", "REPRO-3")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"# twice", b""),
        (b'"""A model."""', b'"""Another."""'),
        (b'    """A model."""\n', b""),
        (b"rows * 2", b"(rows*2)"),
    ],
)
def test_comments_docstrings_and_formatting_leave_it_unchanged(old: bytes, new: bytes) -> None:
    assert old in CODE
    assert meaning_of(CODE.replace(old, new)) == meaning_of(CODE)


@pytest.mark.requirement("PHASE-8")
@pytest.mark.parametrize(("old", "new"), [(b"* 2", b"* 3"), (b"rows *", b"-rows *"), (b"Net(", b"Network(")])
def test_what_the_code_does_changes_it(old: bytes, new: bytes) -> None:
    assert meaning_of(CODE.replace(old, new)) != meaning_of(CODE)


@pytest.mark.requirement("PHASE-8", "GATE-5")
def test_code_that_reads_its_own_texts_means_its_bytes() -> None:
    reads = {"net.py": CODE, "args.py": b"import net\nWIDTH = int(net.__doc__)\n"}
    other = reads | {"net.py": b'"""64"""\n' + CODE}
    assert meanings_of(reads)["net.py"] != meanings_of(other)["net.py"]


@pytest.mark.requirement("PHASE-8")
def test_what_is_no_python_means_its_bytes() -> None:
    assert meaning_of(b"\x7fELF\x00 # one") != meaning_of(b"\x7fELF\x00 # two")
    assert meaning_of(b"def (: # one") != meaning_of(b"def (: # two")
