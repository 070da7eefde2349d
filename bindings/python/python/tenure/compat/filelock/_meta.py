"""How a lock is made: its options are checked, and with ``is_singleton`` there is one object per path and class."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABCMeta
from typing import TYPE_CHECKING, Any, ClassVar, Union

from . import _options

if TYPE_CHECKING:
    from ._lock import BaseFileLock

__all__ = ["FileLockMeta"]

_Path = Union[str, "os.PathLike[str]"]


def canonical(path: _Path) -> str:
    """One spelling for each lock file. A symlink in its place stays one."""
    parent, name = os.path.split(os.fspath(path))
    return os.path.join(os.path.realpath(parent or os.curdir), name)


class FileLockMeta(ABCMeta):
    """Checks the options, and gives one object per path and class with ``is_singleton``."""

    _instances: weakref.WeakValueDictionary[str, Any]
    _instances_lock: Any
    #: Options that only some classes have.
    _more: ClassVar[dict[str, Any]] = {}

    def __init__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any], **more: Any) -> None:
        super().__init__(name, bases, names, **more)
        cls._instances = weakref.WeakValueDictionary()
        cls._instances_lock = threading.RLock()

    def __call__(cls, lock_file: _Path, *positions: Any, **given: Any) -> Any:
        if len(positions) > len(_options.POSITIONS):
            most = len(_options.POSITIONS) + 2
            raise TypeError(f"{cls.__name__} takes at most {most} positional arguments")
        for name, value in zip(_options.POSITIONS, positions):
            if name in given:
                raise TypeError(f"{cls.__name__} got multiple values for argument {name!r}")
            given[name] = value
        defaults = {**_options.DEFAULTS, **cls._more}
        given = cls._checked({**cls._more, **given})
        options = _options.for_class(cls, given, defaults)  # type: ignore[arg-type]
        if not given["is_singleton"]:
            return super().__call__(lock_file, **options)
        key = canonical(lock_file)
        with cls._instances_lock:
            known = cls._instances.get(key)
            # An object of a relative path may name another file by now.
            if known is None or canonical(known._path) != key:
                made = super().__call__(lock_file, **options)
                made._named = dict(given)
                cls._instances[key] = made
                return made
        cls._compare(known, given)
        return known

    def _checked(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _options.checked(cls, given, stacklevel=3)  # type: ignore[arg-type]

    def _compare(cls, known: BaseFileLock, given: dict[str, Any]) -> None:
        """A second caller must want the same lock."""
        there = {**known._named, **known._changeable()}
        differing = [
            f"\n\t{name} (existing lock has {there.get(name)} but {value} was passed)"
            for name, value in given.items()
            if name != "is_singleton" and not _same(name, value, there.get(name))
        ]
        if differing:
            message = "Singleton lock instances cannot be initialized with differing arguments"
            raise ValueError(f"{message}\nNon-matching arguments: {''.join(differing)}")


def _same(name: str, one: Any, other: Any) -> bool:
    if name == "timeout":
        # Every negative one, and the infinite one, is for ever; one that is no number is like itself.
        one, other = (-1.0 if value < 0 or value == float("inf") else value for value in (one, other))
        return bool(one == other or (one != one and other != other))
    if name in ("on_acquired", "loop", "executor"):
        return one is other
    return bool(one == other)
