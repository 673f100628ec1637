"""A folder that no other user can change: neither it nor any folder above it."""

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

from regard.errors import UserError

if sys.platform != "win32":
    import grp
    import pwd

HINT = "set XDG_CACHE_HOME to a folder that only you can write to"
ACCESS_LIST = "system.posix_acl_access"  # the extended attribute with Linux's access-control list


def private_folder(folder: Path) -> Path:
    """The real path of `folder`, created for this user alone if it is missing.

    From the root down, each folder must belong to this user or to root, and no other user may write to it.
    Above the last one, a folder with the sticky bit (such as /tmp) is allowed too: others cannot rename files
    there that are not theirs. So no other user can replace files in the folder, now or later.

    Raises:
        UserError: another user could.
        OSError: it cannot be created.
    """
    real = Path(os.path.realpath(folder))
    if sys.platform == "win32":  # there a user's own folders are private already
        real.mkdir(parents=True, exist_ok=True)
        return real
    for path in reversed(real.parents):
        _refuse_shared(path, sticky_will_do=True)
    _refuse_shared(real, sticky_will_do=False)
    return real


def is_trusted(user: int) -> bool:
    """True for this user and for root, who has all rights anyway."""
    return user in (0, os.geteuid())


def _refuse_shared(path: Path, sticky_will_do: bool) -> None:
    found = _found_or_made(path)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if not is_trusted(found.st_uid):
        raise UserError(f"{path} belongs to another user ({found.st_uid})", HINT)
    if sticky_will_do and found.st_mode & stat.S_ISVTX:
        return
    if found.st_mode & stat.S_IWOTH:
        raise UserError(f"{path} can be written to by every user", HINT)
    if found.st_mode & stat.S_IWGRP and not _is_own_group(path, found.st_gid):
        raise UserError(f"{path} can be written to by other users (group {found.st_gid})", HINT)


def _found_or_made(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process was quicker
            path.mkdir(mode=0o700)
        return path.lstat()


def _is_own_group(path: Path, group: int) -> bool:
    """True if this user is the only member of the group: many systems give each user such a group.

    False if there is an access-control list, because the group's permission bits then apply to all its
    entries.
    """
    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    named = group == user.pw_gid and members.gr_name == user.pw_name
    return named and set(members.gr_mem) <= {user.pw_name} and not _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    if not hasattr(os, "listxattr"):  # not Linux: assume that there may be such a list
        return True
    try:
        return ACCESS_LIST in os.listxattr(path)
    except OSError as error:
        return error.errno != errno.ENOTSUP  # a file system without extended attributes has no such list
