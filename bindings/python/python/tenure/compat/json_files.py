"""JSON files as command-line harnesses save them, without the holes of lock, truncate and write in place.

1. The file is replaced as a whole: a reader, with or without tenure, sees the old text or the new one, and
   a process killed in between leaves the old one.
2. The lock is tenure's lock of that path: documents, the command line and other languages wait for it too.
3. The text is what ``json.dumps`` makes of the given options, byte for byte.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import _tenure
from .._errors import DamagedError, InvalidError, UnsupportedError

if TYPE_CHECKING:
    from ..types import Wait

__all__ = ["locked_save_json", "update_json"]

_Path = Union[str, bytes, "os.PathLike[str]"]


def locked_save_json(path: _Path, data: Any, **dump_kwargs: Any) -> None:
    """Saves ``data`` as JSON, under the lock. Parent directories are created.

    Two programs that load, change and save still overwrite each other: use :func:`update_json` for that.
    """
    target = os.fsdecode(path)
    text = json.dumps(data, **dump_kwargs)
    _change(target, lambda _: text, wait=None, label="save")


def update_json(
    path: _Path,
    function: Callable[[Any], Any],
    *,
    initial: Any = None,
    wait: Wait = None,
    **dump_kwargs: Any,
) -> Any:
    """Loads, changes and saves under one lock, so that no update is lost. Returns what was saved.

    ``function`` gets what the file says, or ``initial`` (its own copy) where there is no file. It returns
    the new data, or ``None`` if it changed its argument in place; to do both is an ``InvalidError``. If it
    raises, the file stays as it is.
    """
    target = os.fsdecode(path)
    new: Any = None

    def make(text: Optional[str]) -> str:
        nonlocal new
        data = _load(target, text, initial)
        new = function(data)
        if new is None:
            new = data
        elif new is not data and data != new and data != _load(target, text, initial):
            detail = "the function changed its argument and returned something else"
            hint = "return nothing to keep the changes, or new data without changing the old"
            message = f"failed to update `{target}`: {detail}; {hint}"
            raise InvalidError(message, action="update", path=target, hint=hint)
        return json.dumps(new, **dump_kwargs)

    _change(target, make, wait=wait, label="update")
    return new


def _change(target: str, make: Callable[[Optional[str]], str], *, wait: Wait, label: str) -> None:
    """Puts the text that ``make`` makes of the old one (``None`` if there is none) in its place, alone."""
    _make_parent(target)
    with _tenure.lock(target, wait=wait, label=label) as guard:
        if guard._nested:
            # Below `tenure run` on this very file its other programs have that hold as well. What keeps them
            # apart is the lock of each write, which a document takes.
            document = _tenure.Document(target)
            document._update_text(make, fence=guard.fence, wait=wait, new_mode=_mode_of_new())
        else:
            _replace(target, make(_read(target)))


def _read(target: str) -> Optional[str]:
    try:
        with open(target, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _load(target: str, text: Optional[str], initial: Any) -> Any:
    if text is None:
        return copy.deepcopy(initial)
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"failed to update `{target}`: it is not JSON: {error}"
        hint = "fix it or move it away; nothing was changed"
        raise DamagedError(f"{message}; {hint}", action="update", path=target, hint=hint) from error


def _make_parent(target: str) -> None:
    parent = os.path.dirname(target)
    if parent:
        os.makedirs(parent, exist_ok=True)


def _replace(target: str, text: str) -> None:
    """Puts a whole new file in the place of the old one; the caller has the lock."""
    real = os.path.realpath(target)  # A symlink stays one.
    parent, name = os.path.split(real)
    # Under the lock there is one writer: what a killed one left has this name, and is overwritten.
    temporary = os.path.join(_sidecars(real, parent), f"{_short(name)}.tmp.{'f' * 16}")
    old = _look_at(real)
    mode = _mode_of_new() if old is None else stat.S_IMODE(old.st_mode)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(temporary, flags, mode), "w", encoding="utf-8") as file:
            if old is not None and hasattr(os, "fchown"):
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            os.chmod(temporary, mode)
            file.write(text)
            file.flush()
            # Before the rename: else a power loss can leave the new name without its content.
            os.fsync(file.fileno())
        os.replace(temporary, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":
        directory = os.open(parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # The new name itself.
        finally:
            os.close(directory)


def _sidecars(real: str, parent: str) -> str:
    """Where tenure has its files for this one. In a sticky directory, such as /tmp, every user has their own."""
    if os.stat(parent).st_mode & stat.S_ISVTX:
        return _tenure.status(real)["sidecars"]
    return os.path.join(parent, ".tenure")


def _short(name: str) -> str:
    """A name that leaves room for the suffix of a temporary file."""
    data = os.fsencode(name)
    return name if len(data) < 200 else hashlib.blake2b(data, digest_size=16).hexdigest()


def _look_at(path: str) -> Optional[os.stat_result]:
    """The file that is replaced, if there is one. Two names of one file would be two files afterwards."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if found.st_nlink > 1:
        message = f"failed to write `{path}`: it has {found.st_nlink} hard links"
        hint = "two names are two locks: remove the others"
        raise UnsupportedError(f"{message}; {hint}", action="write", path=path, hint=hint)
    return found


def _mode_of_new() -> int:
    """The mode that ``open`` gives to a new file."""
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
