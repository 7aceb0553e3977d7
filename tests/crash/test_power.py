"""A share of the campaign of power cuts (power.py), and what its disk may hold."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from pathlib import Path
from random import Random

import pytest

from tests.crash import power, power_disk, shim
from tests.crash.shim import Operation, Record
from timewheel.errors import JournalError, JournalUnavailable
from timewheel_storage.sqlite import log, schema
from timewheel_storage.sqlite.connection import open_writer
from timewheel_storage.sqlite.files import DiskFiles

FOLDER, INODE, FOLDERS_INODE = "/j", 7, 1


@pytest.mark.slow
def test_no_power_cut_takes_what_was_acknowledged(tmp_path):
    with power.quick_folder() as folder:
        campaign = power.Campaign(1, folder, tmp_path, brief=True)
        campaign.run(600)
    assert campaign.wrong == []
    report = campaign.report(0)
    assert report["blind controls"] == []
    assert report["cases"] >= 600
    assert set(report["kinds"]) == set(power_disk.KINDS)
    assert campaign.lost["process"] > 0  # as it may, and the method sees it


# ---- the disk --------------------------------------------------------------------------------------------------------


def call(operation, name="file", *, offset=0, data=b"", inode=INODE, error=0, second=""):
    path = FOLDER if inode == FOLDERS_INODE else f"{FOLDER}/{name}"
    return Record(operation, error, inode, offset, path, f"{FOLDER}/{second}" if second else "", data)


CREATE = call(Operation.CREATE)
SYNC = call(Operation.SYNC)
SYNC_NAMES = call(Operation.SYNC, inode=FOLDERS_INODE)


def disk_after(*calls, lies=False):
    disk = power_disk.Disk(FOLDER, lies=lies)
    for each in calls:
        disk.apply(each)
    return disk


def write(data, offset=0):
    return call(Operation.WRITE, data=data, offset=offset)


def contents(disk, kind, name="file", seeds=200):
    return {disk.image(kind, Random(seed)).get(name) for seed in range(seeds)}


def test_nothing_is_certain_before_the_sync_of_the_file_and_of_its_name():
    assert disk_after(CREATE, write(b"data"), SYNC).image("none", Random(0)) == {}
    assert disk_after(CREATE, write(b"data"), SYNC_NAMES).image("none", Random(0)) == {"file": b""}
    for kind in power_disk.KINDS:
        assert contents(disk_after(CREATE, write(b"data"), SYNC, SYNC_NAMES), kind, seeds=20) == {b"data"}


def test_a_disk_that_lies_makes_nothing_certain():
    assert disk_after(CREATE, write(b"data"), SYNC, SYNC_NAMES, lies=True).image("none", Random(0)) == {}


def test_a_cut_in_the_middle_tears_one_call_at_a_sector_and_takes_the_later_ones():
    disk = disk_after(CREATE, SYNC_NAMES, write(b"a" * 512), write(b"b" * 1024, 512), write(b"c", 1536))
    found = contents(disk, "prefix")
    whole = b"a" * 512 + b"b" * 1024 + b"c"
    assert found == {whole[:length] for length in (0, 512, 1024, 1536, 1537)}


def test_calls_survive_each_on_its_own_and_leave_holes():
    disk = disk_after(CREATE, SYNC_NAMES, write(b"a" * 512), write(b"b" * 512, 512))
    kept = {content for content in contents(disk, "subset") if not content.strip(b"\0ab")}
    assert {b"", b"a" * 512, b"a" * 512 + b"b" * 512, bytes(512) + b"b" * 512} == kept
    assert any(content.endswith(b"b") and content[0] not in b"\0a" for content in contents(disk, "subset") if content)


def test_sectors_survive_each_on_its_own():
    disk = disk_after(CREATE, SYNC_NAMES, write(b"x" * 2048), SYNC, write(b"y" * 2048))
    assert len(contents(disk, "sectors")) == 16


def test_a_shorter_file_is_uncertain_too():
    disk = disk_after(CREATE, SYNC_NAMES, write(b"data"), SYNC, call(Operation.TRUNCATE, offset=2))
    assert contents(disk, "subset") == {b"data", b"da"}


def test_names_survive_each_on_its_own():
    moved = call(Operation.RENAME, "file", second="other")
    disk = disk_after(CREATE, write(b"data"), SYNC, SYNC_NAMES, moved)
    assert disk.now() == {"other": b"data"}
    images = [disk.image("names", Random(seed)) for seed in range(50)]
    assert {"file": b"data"} in images
    assert {"other": b"data"} in images
    gone = disk_after(CREATE, SYNC_NAMES, call(Operation.UNLINK))
    assert contents(gone, "names") == {b"", None}


def test_a_link_is_another_name_of_the_same_file():
    linked = disk_after(CREATE, call(Operation.LINK, second="other"), write(b"data"), SYNC, SYNC_NAMES)
    assert linked.image("none", Random(0)) == {"file": b"data", "other": b"data"}


def test_what_a_failed_sync_forgot_is_not_made_certain_by_the_next_one():
    failed = call(Operation.SYNC, error=errno.EIO)
    disk = disk_after(CREATE, SYNC_NAMES, write(b"lost"), failed, write(b"kept", 4), SYNC)
    assert disk.now() == {"file": b"lostkept"}
    assert {content[4:] for content in contents(disk, "none")} == {b"kept"}
    assert contents(disk, "none") >= {bytes(4) + b"kept"}
    assert contents(disk, "subset") >= {bytes(4) + b"kept", b"lostkept"}
    disk.apply(write(b"LOST"))
    disk.apply(SYNC)
    assert contents(disk, "none") == contents(disk, "subset") == {b"LOSTkept"}
    for _ in range(2):
        disk.apply(call(Operation.TRUNCATE, offset=0))
        disk.apply(SYNC)
    assert contents(disk, "none") == {b""}


def test_a_recording_that_misses_a_call_is_noticed(tmp_path):
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "file").write_bytes(b"data")
    calls = [Record(Operation.CREATE, 0, INODE, 0, f"{tmp_path}/journal/file", "", b"")]
    with pytest.raises(RuntimeError, match="did not see"):
        power.check_complete(power.Recording("some", tmp_path / "journal", calls, {}))


def test_the_shim_compiles_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(shim, "FLAGS", (*shim.FLAGS, "-Wall", "-Wextra", "-Werror"))
    assert shim.compiled(tmp_path).exists()


# ---- what it found ---------------------------------------------------------------------------------------------------


def test_a_log_that_was_left_is_written_over_itself_before_anything_is_added(tmp_path, monkeypatch):
    path = str(tmp_path / "journal.db")
    schema.make_if_absent(path)
    killed = schema.connect(path, "rw")
    killed.execute("PRAGMA wal_autocheckpoint = 0")
    killed.execute("CREATE TABLE some (one)")
    killed.executemany("INSERT INTO some VALUES (zeroblob(?))", [(3000,)] * 700)
    content = Path(f"{path}-wal").read_bytes()
    written, synced = {}, []
    pwrite, fsync = os.pwrite, os.fsync

    def note(descriptor, data, place):
        written[place] = pwrite(descriptor, data[: len(data) // 2 + 1], place)  # as short as a write may be
        return written[place]

    monkeypatch.setattr(os, "pwrite", note)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append((sum(written.values()), fsync(descriptor))))
    open_writer(DiskFiles(path), "power").close()
    assert len(content) > log.CHUNK_BYTES
    assert synced == [(len(content), None)] * 2  # the log, and then the folder
    assert Path(f"{path}-wal").read_bytes()[: len(content)] == content
    assert killed.execute("SELECT count(*) FROM some").fetchone() == (700,)
    killed.close()


def test_nobody_adds_to_a_log_that_is_made_certain(tmp_path, monkeypatch):
    path = str(tmp_path / "journal.db")
    schema.make_if_absent(path)
    first, second = (schema.connect(path, "rw", timeout_s=0) for _ in range(2))
    first.execute("CREATE TABLE some (one)")

    def fail(_):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.execute("INSERT INTO some VALUES (1)")
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(JournalUnavailable, match="injected"):
        log.make_certain(first, path)
    monkeypatch.undo()
    second.execute("INSERT INTO some VALUES (1)")
    log.make_certain(first, path)
    for connection in (second, first):
        connection.close()
    log.make_certain(first, path)  # there is none: nothing is asked of the connection


def test_a_start_that_cannot_make_the_names_certain_says_so(tmp_path, monkeypatch):
    """SQLite passes over a folder whose sync fails when it makes its log: what is synced in that log may be lost."""
    path = str(tmp_path / "journal.db")
    schema.make_if_absent(path)
    fsync = os.fsync

    def no_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", no_folders)
    with pytest.raises(JournalError):
        open_writer(DiskFiles(path), "power")
