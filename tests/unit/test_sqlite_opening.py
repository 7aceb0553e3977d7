"""Opening a journal: each fault has its own error, with the path and the way out, and the file stays untouched."""

import errno
import hashlib
import os
import shutil
import sqlite3
import stat
import threading

import pytest

from timewheel.errors import (
    JournalCorrupt,
    JournalError,
    JournalNewer,
    JournalTruncated,
    JournalUnavailable,
    JournalUnsafe,
)
from timewheel.testing.builders import claim, owner, settle_ok, stamp, submit
from timewheel_storage.sqlite import mounts, open_sqlite, schema
from timewheel_storage.sqlite.files import DiskFiles, Mark

JOBS = range(1, 301)


async def filled(path):
    store = open_sqlite(str(path))
    await store.open()
    await store.own(owner())
    await store.commit([submit(job_id, arguments='[["' + "x" * 200 + '"],{}]') for job_id in JOBS], stamp(1))
    await store.commit([claim(*range(1, 100))], stamp(1))
    await store.commit([settle_ok(job_id) for job_id in range(1, 100)], stamp(1))
    await store.close()


@pytest.fixture
async def journal(tmp_path):
    """A closed journal with jobs in it; everything is in the file itself."""
    path = tmp_path / "journal.db"
    await filled(path)
    for name in ("-wal", "-shm"):  # a reader of the last process leaves the log behind
        assert not os.path.exists(f"{path}{name}") or fold(path)
    os.unlink(f"{path}.mark")
    return path


def fold(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return True


def print_of(path):
    status = os.stat(path)
    return hashlib.sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns, status.st_ino, status.st_size


async def refused(path, error):
    """Opening raises exactly this error, tells the path, and changes nothing. Owning is not reached."""
    before = print_of(path) if path.is_file() else None
    store = open_sqlite(str(path))
    with pytest.raises(JournalError) as caught:
        await store.open()
    await store.close()
    assert type(caught.value) is error, caught.value
    assert str(path) in str(caught.value)
    assert caught.value.path == str(path)
    assert (print_of(path) if path.is_file() else None) == before
    return str(caught.value)


# ---- what is made ----------------------------------------------------------------------------------------------------


async def test_a_new_journal_is_private_and_whole(tmp_path):
    path = tmp_path / "new.db"
    store = open_sqlite(str(path))
    assert not path.exists()
    await store.open()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size > 0
    assert await store.lanes() == []
    assert await store.entries() == []
    await store.close()
    assert [name for name in os.listdir(tmp_path) if ".new." in name] == []


async def test_a_crash_while_a_journal_is_made_leaves_none(tmp_path, monkeypatch):
    def dies(side, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(schema, "_put_into_place", dies)
    with pytest.raises(KeyboardInterrupt):
        schema.make_if_absent(str(tmp_path / "new.db"))
    assert os.listdir(tmp_path) == []


async def test_a_journal_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    """And its folder after: so a power cut leaves either no journal or a whole one."""
    path = str(tmp_path / "journal.db")
    synced = []
    really = schema._sync

    def sync(name):
        synced.append((name.startswith(f"{path}.new."), name == str(tmp_path), os.path.exists(path)))
        really(name)

    monkeypatch.setattr(schema, "_sync", sync)
    schema.make_if_absent(path)
    assert synced == [(True, False, False), (False, True, True)]


async def test_a_journal_made_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    """Two processes find no journal; the slower one must not put an empty one over the other's."""
    path = tmp_path / "journal.db"
    really = schema._put_into_place

    def slow(side, target):
        monkeypatch.setattr(schema, "_put_into_place", really)
        other = threading.Thread(target=schema.make_if_absent, args=(target,))
        other.start()
        other.join()
        before = os.stat(target)
        really(side, target)
        assert os.path.samestat(before, os.stat(target))

    monkeypatch.setattr(schema, "_put_into_place", slow)
    schema.make_if_absent(str(path))
    assert sorted(os.listdir(tmp_path)) == ["journal.db"]


@pytest.mark.parametrize("refusal", [PermissionError(), OSError(errno.ENOTSUP, "no"), OSError(errno.ENOSYS, "no")])
async def test_without_hard_links_the_journal_is_renamed_into_place(tmp_path, monkeypatch, refusal):
    def no_links(*_):
        raise refusal

    monkeypatch.setattr(os, "link", no_links)
    schema.make_if_absent(str(tmp_path / "journal.db"))
    assert os.listdir(tmp_path) == ["journal.db"]


async def test_a_path_with_odd_letters(tmp_path):
    path = tmp_path / "a b?c#d%41.db"
    await filled(path)
    assert path.exists()
    assert sorted(os.listdir(tmp_path))[0] == "a b?c#d%41.db"


# ---- what is refused -------------------------------------------------------------------------------------------------


async def test_a_missing_folder(tmp_path):
    message = await refused(tmp_path / "nowhere" / "journal.db", JournalUnavailable)
    assert f"there is no folder {tmp_path}/nowhere; make it" in message
    assert ".new." not in message


async def test_a_fault_while_it_is_made_names_the_journal(tmp_path, monkeypatch):
    def denied(side, path):
        raise PermissionError(13, "Permission denied", side, None, path)

    monkeypatch.setattr(schema, "_put_into_place", denied)
    message = await refused(tmp_path / "journal.db", JournalUnavailable)
    assert "Permission denied" in message
    assert ".new." not in message


async def test_a_folder(tmp_path):
    assert "is not a file" in await refused(tmp_path, JournalUnavailable)


async def test_a_dangling_link(tmp_path):
    (tmp_path / "journal.db").symlink_to(tmp_path / "gone.db")
    await refused(tmp_path / "journal.db", JournalUnavailable)


async def test_a_file_of_length_zero(tmp_path):
    path = tmp_path / "journal.db"
    path.touch()
    message = await refused(path, JournalCorrupt)
    assert "length zero" in message
    assert "restore a backup" in message


@pytest.mark.parametrize("content", [b"hello, world\n" * 1000, b"\0" * 8192, b"SQLite format 3\0" + b"x" * 8176])
async def test_not_a_database(tmp_path, content):
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    message = await refused(path, JournalCorrupt)
    assert "move it away" in message or "another program" in message


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_the_database_of_another_program(tmp_path, mode):
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE jobs (id)")
    connection.commit()
    connection.close()
    assert "another program" in await refused(path, JournalCorrupt)


async def test_a_newer_journal(journal):
    connection = sqlite3.connect(journal)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    message = await refused(journal, JournalNewer)
    assert "99" in message
    assert "upgrade" in message


async def test_a_damaged_header(journal):
    content = bytearray(journal.read_bytes())
    content[:16] = b"\0" * 16
    journal.write_bytes(content)
    await refused(journal, JournalCorrupt)


async def test_a_schema_with_letters_that_are_none(journal):
    """SQLite's message quotes it, and Python cannot decode the message."""
    content = journal.read_bytes()
    assert b"CREATE TABLE keys (" in content
    journal.write_bytes(content.replace(b"CREATE TABLE keys (", b"CREATE TABLE keys \xa8"))
    assert "damaged" in await refused(journal, JournalCorrupt)


@pytest.mark.parametrize("keep", ["half", "one page less", "one page"])
async def test_a_truncated_file(journal, keep):
    size = journal.stat().st_size
    os.truncate(journal, {"half": size // 8192 * 4096, "one page less": size - 4096, "one page": 4096}[keep])
    await refused(journal, JournalCorrupt)


async def test_a_damaged_page(journal):
    content = bytearray(journal.read_bytes())
    page = next(at for at in range(len(content) - 4096, 0, -4096) if b"x" * 200 in content[at : at + 4096])
    content[page : page + 100] = b"\xff" * 100
    journal.write_bytes(content)
    message = await refused(journal, JournalCorrupt)
    assert "damaged" in message


async def test_damage_is_found_at_the_ends_of_a_large_journal_too(journal, monkeypatch):
    monkeypatch.setattr(schema, "QUICK_CHECK_BYTES", 0)
    content = bytearray(journal.read_bytes())
    for page in range(4096, len(content), 4096):
        if b"x" * 200 in content[page : page + 4096]:
            content[page : page + 100] = b"\xff" * 100
    journal.write_bytes(content)
    await refused(journal, JournalCorrupt)


async def test_a_sound_large_journal_opens(journal, monkeypatch):
    monkeypatch.setattr(schema, "QUICK_CHECK_BYTES", 0)
    store = open_sqlite(str(journal))
    await store.open()
    assert (await store.job(300)).job_id == 300
    await store.close()


async def test_a_journal_without_its_tables(tmp_path):
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("CREATE TABLE other (id)")
    connection.commit()
    connection.close()
    await refused(path, JournalCorrupt)


# ---- where it lies ---------------------------------------------------------------------------------------------------

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /mnt rw - tmpfs tmpfs rw
31 30 0:26 / /mnt/share rw,relatime shared:2 master:3 - {kind} server:/export rw
32 31 0:27 / /mnt/share/local\\040disk rw - xfs /dev/vdb rw
"""


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    def mount(kind):
        table = tmp_path / "mountinfo"
        table.write_text(MOUNTS.format(kind=kind))
        return lambda path: mounts.network_type(path, str(table))

    return mount


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs", "vboxsf"]
)
def test_network_file_systems_are_known(mounted, kind):
    at = mounted(kind)
    assert at("/mnt/share/journal.db") == kind
    assert at("/mnt/share/deep/er/journal.db") == kind
    assert at("/mnt/journal.db") is None
    assert at("/mnt/shared/journal.db") is None
    assert at("/journal.db") is None
    assert at("/mnt/share/local disk/journal.db") is None


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "f2fs"])
def test_local_file_systems_are_taken(mounted, kind):
    assert mounted(kind)("/mnt/share/journal.db") is None


def test_of_two_mounts_at_one_place_the_later_counts(tmp_path):
    table = tmp_path / "mountinfo"
    table.write_text("1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / /m rw - nfs4 b rw\n3 1 0:3 / /m rw - ext4 c rw\n")
    assert mounts.network_type("/m/journal.db", str(table)) is None


def test_a_system_without_the_table_refuses_nothing(tmp_path):
    assert mounts.network_type("/journal.db", str(tmp_path / "none")) is None


async def test_a_network_file_system_is_refused_unless_told(tmp_path, monkeypatch):
    monkeypatch.setattr("timewheel_storage.sqlite.files.network_type", lambda path: "nfs4")
    path = tmp_path / "journal.db"
    message = await refused(path, JournalUnsafe)
    assert "nfs4" in message
    assert "unsafe=1" in message
    assert not path.exists()
    store = open_sqlite(str(path), unsafe=True)
    await store.open()
    await store.close()


# ---- the high-water mark ---------------------------------------------------------------------------------------------


async def commits_of(path):
    store = open_sqlite(str(path))
    await store.open()
    await store.own(owner())
    await store.close()
    mark = DiskFiles(str(path)).read_mark()
    assert mark is not None
    return mark


async def test_commits_that_are_missing_are_named(journal):
    mark = await commits_of(journal)
    fold(journal)
    DiskFiles(str(journal)).write_mark(mark._replace(commits=mark.commits + 3))
    message = await refused(journal, JournalTruncated)
    assert f"{mark.commits + 1} to {mark.commits + 3}" in message
    assert f"put it in the place of {journal}" in message
    assert f"and delete {journal}.mark, which remembers commits that the backup lacks" in message
    assert f"to go on without them, delete {journal}.mark alone" in message
    os.unlink(f"{journal}.mark")
    assert (await commits_of(journal)).commits == mark.commits + 1


async def test_the_missing_range_is_an_attribute(journal):
    mark = await commits_of(journal)
    DiskFiles(str(journal)).write_mark(mark._replace(commits=mark.commits + 1))
    store = open_sqlite(str(journal))
    with pytest.raises(JournalTruncated) as caught:
        await store.open()
    assert caught.value.missing == (mark.commits + 1, mark.commits + 1)


async def test_a_flipped_bit_in_the_log_is_noticed(tmp_path):
    """SQLite drops the frames after it in silence, and its integrity check says ok."""
    path = tmp_path / "journal.db"
    store = open_sqlite(str(path))
    await store.open()
    await store.own(owner())
    for job_id in range(1, 21):
        await store.commit([submit(job_id)], stamp(1))
    await store.check()
    copy = tmp_path / "copy.db"
    for ending in ("", "-wal", ".mark"):
        shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    await store.close()
    log = bytearray((tmp_path / "copy.db-wal").read_bytes())
    log[len(log) // 2] ^= 1
    (tmp_path / "copy.db-wal").write_bytes(log)
    await refused(copy, JournalTruncated)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"commits": 5}', b"\xff\xfe"])
async def test_a_torn_mark_is_no_mark(journal, content):
    (journal.parent / "journal.db.mark").write_bytes(content)
    assert DiskFiles(str(journal)).read_mark() is None
    assert (await commits_of(journal)).commits > 0


async def test_the_mark_of_another_journal_says_nothing(journal):
    DiskFiles(str(journal)).write_mark(Mark(10_000, "another", DiskFiles("").boot_id()))
    assert (await commits_of(journal)).commits < 10_000


async def test_durability_process_allows_the_loss_of_a_power_cut_and_notes_it(journal):
    mark = await commits_of(journal)
    files = DiskFiles(str(journal))
    files.write_mark(mark._replace(commits=mark.commits + 2))
    store = open_sqlite(str(journal), "process")
    with pytest.raises(JournalTruncated):  # this boot: no power was cut
        await store.open()
    files.write_mark(mark._replace(commits=mark.commits + 2, boot_id="another boot"))
    await store.open()
    await store.own(owner())
    [entry] = [entry for entry in await store.entries() if entry[2] == "commits_lost"]
    assert entry[3] == f'{{"first":{mark.commits + 1},"last":{mark.commits + 2}}}'
    await store.close()
    files.write_mark(mark._replace(commits=mark.commits + 9, boot_id="another boot"))
    with pytest.raises(JournalTruncated):
        await open_sqlite(str(journal), "power").open()


async def test_an_sqlite_that_is_too_old_is_refused_before_the_first_statement(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    with pytest.raises(JournalUnavailable, match=r"needs SQLite 3\.38 or newer"):
        await open_sqlite(str(tmp_path / "j.db")).open()
