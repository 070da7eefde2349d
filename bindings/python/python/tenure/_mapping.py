"""A document as a mapping: every call reads the file, or changes it under the lock.

1. What one call does is done at once: ``pop``, ``setdefault`` and ``update`` lose nothing beside other processes.
2. A value that was returned is a copy. Change the document by ``mapping[key] = value`` or in a ``transaction``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import _tenure
from ._errors import InvalidError
from ._transaction import without_op_id

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import types
    from ._transaction import Transaction

__all__ = ["Mapping"]

_T = TypeVar("_T")
_MISSING = object()


class Mapping(MutableMapping[str, Any]):
    """The members of a document that is an object. One that is not there is empty."""

    def __init__(self, document: _tenure.Document, **options: Unpack[types.MappingOptions]) -> None:
        without_op_id(options, "a mapping")
        #: The document itself.
        self.document = document
        self._options = options

    def transaction(self) -> Transaction:
        """Several changes as one: ``with mapping.transaction() as value:``."""
        return self.document.transaction(**self._options, init={})

    def _read(self) -> dict[str, Any]:
        snapshot = self.document.read()
        value = {} if snapshot is None else snapshot.value
        return self._checked(value)

    def _checked(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            path = self.document.path
            message = f"failed to read `{path}` as a mapping: it is not an object"
            raise InvalidError(message, action="read", path=path)
        return value

    def _change(self, act: Callable[[dict[str, Any]], _T]) -> _T:
        with self.transaction() as value:
            return act(self._checked(value))

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._change(lambda members: members.__setitem__(key, value))

    def __delitem__(self, key: str) -> None:
        self._change(lambda members: members.__delitem__(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __contains__(self, key: object) -> bool:
        return key in self._read()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self._read() == other._read()
        return self._read() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<tenure mapping path={self.document.path!r}>"

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Removes a member and returns it."""
        if default is _MISSING:
            return self._change(lambda members: members.pop(key))
        return self._change(lambda members: members.pop(key, default))

    def popitem(self) -> tuple[str, Any]:
        """Removes the newest member and returns it with its name."""
        return self._change(lambda members: members.popitem())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The member; set to ``default`` first if it is not there."""
        return self._change(lambda members: members.setdefault(key, default))

    def update(self, *others: Any, **more: Any) -> None:
        """Sets many members at once."""
        self._change(lambda members: members.update(*others, **more))

    def clear(self) -> None:
        """Removes all members."""
        self._change(lambda members: members.clear())
