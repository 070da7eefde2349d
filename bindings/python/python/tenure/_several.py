"""Several locks, or several leases, that are held together."""

from __future__ import annotations

from . import _tenure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Optional, Union

    from typing_extensions import Unpack

    from . import types


class Guards:
    """Several locks that are held. Leaving its ``with`` block releases all of them."""

    def __init__(self, guards: list[_tenure.Guard]) -> None:
        #: The guard of each target, in the order of the resolved names.
        self.guards = tuple(guards)

    @property
    def held(self) -> bool:
        """Whether this process holds all of them."""
        return all(guard.held for guard in self.guards)

    def verify(self) -> None:
        """Checks that no lock file was removed or replaced during the hold."""
        for guard in self.guards:
            guard.verify()

    def release(self) -> None:
        """Releases all of them, whatever happens to one; then raises what happened."""
        _release(self.guards)

    def __enter__(self) -> Guards:
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


def lock_all(
    paths: Iterable[types.Path],
    *,
    store: _tenure._Store = None,
    **options: Unpack[types.LockAllOptions],
) -> Guards:
    """Takes the locks on several paths, all or none, with one deadline.

    They are taken in the order of their resolved names, so that callers never wait for each other in a circle.
    """
    return Guards(_tenure._lock_all(paths, store=store, **options))


class Leases:
    """Several leases that we have, all with one token. Leaving its ``with`` block releases all of them."""

    def __init__(self, leases: list[_tenure.Leased]) -> None:
        #: The lease of each target, in the order of the resolved names.
        self.leases = tuple(leases)

    @property
    def token(self) -> str:
        """Names all of them to ``renew`` and ``release``. Keep it secret."""
        return self.leases[0].token

    def renew(self, *, ttl: Optional[types.Duration] = None) -> Leases:
        """Extends all of them from now on. The fences and the token stay."""
        return Leases([leased.renew(ttl=ttl) for leased in self.leases])

    def release(self) -> None:
        """Releases all of them, whatever happens to one; then raises what happened."""
        _release(self.leases)

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


def lease_all(
    paths: Iterable[types.Path],
    *,
    ttl: types.Duration,
    store: _tenure._Store = None,
    **options: Unpack[types.LeaseOptions],
) -> Leases:
    """Acquires the leases on several paths, all or none, with one deadline and one token.

    With the token of earlier leases it renews those.
    """
    return Leases(_tenure._lease_all(paths, ttl=ttl, store=store, **options))


def _release(holds: Iterable[Union[_tenure.Guard, _tenure.Leased]]) -> None:
    raised: Optional[BaseException] = None
    for hold in holds:
        try:
            hold.release()
        except BaseException as error:
            raised = raised or error
    if raised is not None:
        raise raised


__all__ = ["Guards", "Leases", "lease_all", "lock_all"]
