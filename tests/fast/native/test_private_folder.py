"""A folder is private if no other user can change it, nor any folder above it."""

import os
import stat

import pytest

from regard.errors import UserError
from regard.fast.native import private_folder as module
from regard.fast.native.private_folder import private_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems have no such modes")
SOMEBODY = 54321  # a user that is neither root nor this one


@pytest.fixture
def top(tmp_path):
    """A folder of this user's own, below others of which that is true too."""
    folder = tmp_path / "top"
    folder.mkdir(mode=0o755)
    return folder


def give_away(path, monkeypatch):
    """Let the folder belong to another user: truly if this user may do that."""
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, -1)
        return
    true_lstat = type(path).lstat

    def lstat(self):
        found = list(true_lstat(self))
        found[stat.ST_UID] = SOMEBODY if self == path else found[stat.ST_UID]
        return os.stat_result(found)

    monkeypatch.setattr(type(path), "lstat", lstat)


def test_it_is_made_for_this_user_alone(top):
    before = os.umask(0o002)  # as some systems have it for users with a group of their own
    try:
        made = private_folder(top / "cache" / "native")
    finally:
        os.umask(before)
    assert made == top / "cache" / "native"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made.parent, made)] == [0o700, 0o700]
    assert private_folder(made) == made  # and is found again


@pytest.mark.parametrize("which", ["top", "top/cache", "top/cache/native"])
def test_no_folder_of_another_user_is_part_of_it(top, which, monkeypatch):
    private_folder(top / "cache" / "native")
    give_away(top.parent / which, monkeypatch)
    with pytest.raises(UserError, match=rf"{which} belongs to another user \({SOMEBODY}\)") as caught:
        private_folder(top / "cache" / "native")
    assert "XDG_CACHE_HOME" in caught.value.hint


@pytest.mark.parametrize("which", ["top", "top/cache", "top/cache/native"])
@pytest.mark.parametrize(("mode", "who"), [(0o757, "every user"), (0o775, "group"), (0o777, "every user")])
def test_no_folder_that_others_can_write_to_is_part_of_it(top, which, mode, who, monkeypatch):
    monkeypatch.setattr(module, "_is_own_group", lambda path, group: False)
    private_folder(top / "cache" / "native")
    (top.parent / which).chmod(mode)
    with pytest.raises(UserError, match=rf"{which} can be written to by .*{who}"):
        private_folder(top / "cache" / "native")


def test_nothing_is_made_below_a_folder_that_others_can_change(top):
    top.chmod(0o777)
    with pytest.raises(UserError):
        private_folder(top / "cache" / "native")
    assert list(top.iterdir()) == []


def test_others_can_write_above_it_if_they_cannot_rename_there(top):
    top.chmod(0o1777)  # as /tmp is
    assert private_folder(top / "native").is_dir()
    (top / "native").chmod(0o1777)  # but files that they put into it would be found
    with pytest.raises(UserError, match="every user"):
        private_folder(top / "native")


def test_a_link_is_followed_to_where_it_leads(top):
    (top / "shared").mkdir()
    (top / "shared").chmod(0o777)
    (top / "link").symlink_to(top / "shared")
    with pytest.raises(UserError, match="top/shared can be written to"):
        private_folder(top / "link" / "native")
    (top / "own").symlink_to(top)
    assert private_folder(top / "own" / "native") == top / "native"


def test_a_file_is_no_folder(top):
    (top / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        private_folder(top / "file" / "native")


@pytest.mark.parametrize(
    ("change", "is_own"),
    [
        ({}, True),
        ({"gr_mem": ["me"]}, True),
        ({"gr_mem": ["me", "you"]}, False),
        ({"gr_name": "users"}, False),
    ],
)
def test_a_group_of_this_user_alone_is_no_other_user(top, monkeypatch, change, is_own):
    group = {"gr_name": "me", "gr_mem": []} | change
    monkeypatch.setattr(module.grp, "getgrgid", lambda number: type("Group", (), group))
    monkeypatch.setattr(
        module.pwd, "getpwuid", lambda number: type("User", (), {"pw_name": "me", "pw_gid": os.getegid()})
    )
    assert module._is_own_group(top, top.stat().st_gid) is is_own
    assert not module._is_own_group(top, top.stat().st_gid + 1)
    monkeypatch.setattr(module.os, "listxattr", lambda path: [module.ACCESS_LIST], raising=False)
    assert not module._is_own_group(top, top.stat().st_gid)  # the list may name others
