"""On which kind of file system a path lies, as Linux tells it; elsewhere nothing is known and nothing is refused."""

from __future__ import annotations

import os
import re

MOUNTS = "/proc/self/mountinfo"
_NETWORK = (
    r"9p|afs|afpfs|ceph|cifs|coda|davfs|gfs2?|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|panfs|smb2|smb3|smbfs"
)
_SHARED = r"prl_fs|vboxsf|vmhgfs"  # by a virtual machine with its host
_FUSE = r"fuse\.(ceph|cephfs|davfs2|gcsfuse|glusterfs|grpcfuse|rclone|s3fs|smbnetfs|sshfs|vmhgfs-fuse)"
NETWORK_TYPE = re.compile(f"{_NETWORK}|{_SHARED}|{_FUSE}")
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_type(path: str, mounts: str = MOUNTS) -> str | None:
    """The type of the file system below `path` when it is one that other machines may use too, else None."""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return None
    found = _type_at(os.path.realpath(os.path.dirname(os.path.abspath(path))), lines)
    return found if NETWORK_TYPE.fullmatch(found) else None


def _type_at(folder: str, lines: list[str]) -> str:
    """The type of the innermost mount that holds the folder; of two at one place, the later one covers the other.

    A line: `36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw`
    """
    longest, kind = -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:
            longest, kind = len(point), right.split(" ")[0]
    return kind
