"""A change in a ``with`` block, under the lock: ``with document.transaction() as value:``.

1. The block sees the fresh document and changes it in place. It is saved when the block ends without an exception.
2. No user of tenure changes the document meanwhile. If another tool did, it is a ``ConflictError``.
3. There is no ``op_id``: a repeated call would run its block, return its result and save nothing.
"""

from __future__ import annotations

import copy

from . import _tenure
from ._errors import ArgumentError, InvalidError, NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

    from typing_extensions import Unpack

    from . import types

__all__ = ["Transaction"]

#: Options of the lock; the others are the write's.
LOCK = ("wait", "fence", "label", "lock_file", "allow_network", "cancel")


def without_op_id(options: Mapping[str, object], what: str) -> None:
    """Refuses an ``op_id`` where a repeated operation would be lost silently."""
    if options.get("op_id") is not None:
        message = f"failed to read the arguments: {what} has no 'op_id', which names one change; use update with an op_id"
        raise ArgumentError(message, action="read the arguments")


class Transaction:
    """A change that is made in place and saved at the end of its block."""

    def __init__(
        self, document: _tenure.Document, **options: Unpack[types.TransactionOptions]
    ) -> None:
        without_op_id(options, "a transaction")
        #: What was done, once the block has ended.
        self.written: Optional[_tenure.Written] = None
        self._document = document
        self._options: dict[str, Any] = dict(options)
        self._guard: Optional[_tenure.Guard] = None
        self._value: Any = None
        self._version: Optional[str] = None

    def __enter__(self) -> Any:
        if self._guard is not None:
            raise InvalidError("failed to begin: the transaction has begun", action="begin")
        # Found out before anything is locked.
        self._document._check_update(**self._options)
        self._guard = _tenure.lock(self._document.path, **self.lock_options())
        try:
            return self.begin()
        except BaseException:
            self._release()
            raise

    def __exit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        guard = self._guard
        try:
            if kind is None and guard is not None:
                self.written = self.save(guard.fence)
        finally:
            self._release()

    def _release(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.release()

    def lock_options(self) -> dict[str, Any]:
        """Those that the lock takes."""
        options = {name: value for name, value in self._options.items() if name in LOCK}
        if self._document._store is not None:
            options["store"] = self._document._store
        return options

    def begin(self) -> Any:
        """The document as the block gets it; the caller has the lock."""
        snapshot = self._document.read()
        path = self._document.path
        if snapshot is not None:
            self._value, self._version = snapshot.value, snapshot.version
        elif self._options.get("init") is not None:
            self._value = copy.deepcopy(self._options["init"])
        else:
            message = f"failed to change `{path}`: there is no document; give it an init to start from"
            raise NotFoundError(message, action="change", path=path)
        if not isinstance(self._value, (dict, list)):
            message = f"failed to change `{path}`: only an object or an array can be changed in place; use update"
            raise InvalidError(message, action="change", path=path)
        return self._value

    def save(self, fence: int) -> _tenure.Written:
        """Writes what the block has made of it."""
        options = {name: value for name, value in self._options.items() if name not in LOCK}
        for name in ("wait", "lock_file", "allow_network"):
            if name in self._options:
                options[name] = self._options[name]
        if self._version is not None and options.get("if_version") is None:
            options["if_version"] = self._version
        options.pop("init", None)
        return self._document.update(lambda _: self._value, fence=fence, **options)
