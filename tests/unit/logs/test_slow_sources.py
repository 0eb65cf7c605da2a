"""Sources that do not answer, windows that are too long, and long compiled work: an end and a line for each."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest

from querycloak.errors import InputError
from querycloak.interruption import interrupt, interruptibly, received
from querycloak.logs.reading import files
from querycloak.logs.searchlog import read
from querycloak.privacy.calibration import deltas
from tests.logs import ROWS, aol, write


def test_an_address_at_which_nobody_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.2)
    monkeypatch.setattr(pyarrow.fs, "FileSystem", type("Deaf", (), {"from_uri": lambda _: time.sleep(30)}))
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"LOG: nobody answers at the address given, for 0.2 seconds"):
        read("gs://bucket/log.tsv")
    assert time.monotonic() - begun < 20


class Failing(io.BytesIO):
    """A file on a disk, or on a server, that fails amid the file."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError(errno.EIO, "chlamydia")
        return super().read(min(size or 0, 100))


@pytest.mark.parametrize(
    ("address", "message"),
    [("", "LOG can no longer be read: input/output error"), ("file://", "can no longer be read: its server no longer")],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_source_that_fails_amid_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, message: str, packed: bool
) -> None:
    log = write(tmp_path / "log.tsv", aol(ROWS * 10))
    if packed:
        log = write(tmp_path / "log.tsv.gz", gzip.compress(log.read_bytes()))
    with read(f"{address}{log}") as opened:
        monkeypatch.setattr(files.LogFile, "open_raw", lambda _: Failing(log.read_bytes()))
        with pytest.raises(InputError, match=message):
            opened.accounting()


def test_work_that_looks_for_no_signals_is_interrupted() -> None:
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            interruptibly(lambda: time.sleep(30))
        assert time.monotonic() - begun < 20
    finally:
        signal.signal(signal.SIGTERM, before)
        received.clear()


def test_a_long_convolution_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    law = np.linspace(0.1, 1.0, 50)
    short = deltas.convolved(law, law)
    monkeypatch.setattr(deltas, "_LONG", 1)
    assert (deltas.convolved(law, law) == short).all()


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
def test_a_window_that_is_too_long_is_named(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", aol(ROWS * 10))
    with log.open("rb") as content, (tmp_path / "log.tsv.zst").open("wb") as packed:  # of unknown size, as in a pipe
        subprocess.run(["zstd", "-q", "--long=31", "-c"], stdin=content, stdout=packed, check=True)
    with pytest.raises(InputError, match="its zstd data has a window of more than 128 MB, of the long mode"):
        read(tmp_path / "log.tsv.zst")
