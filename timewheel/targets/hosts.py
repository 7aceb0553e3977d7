"""Which hosts may an HTTP target call? Those the operator named, and how their addresses are judged. Pure."""

from __future__ import annotations

from collections.abc import Collection

from yarl import URL

from timewheel.targets.addresses import is_public, is_reachable_by_name, read


class AllowedHosts:
    """The hosts that may be called: those named, and with `*` any that has public addresses only.

    A named host may be private or loopback. Raises ValueError for an entry that is not a host (a URL, a port).
    """

    def __init__(self, entries: Collection[str]) -> None:
        self.anywhere = "*" in entries
        self.named = frozenset(_host(entry) for entry in entries if entry != "*")

    def fault_of(self, host: str) -> str | None:
        """Why this host may not be called, as far as that can be told without resolving it; None when it may."""
        host = plain(host)
        if host in self.named:
            return None
        if not self.anywhere:
            return f"host {host!r} is not allowed here: start serve with --allow-http {host}"
        return self._not_public(host, host) if read(host) is not None else None

    def fault_at(self, host: str, address: str) -> str | None:
        """Why `host` may not be called at this resolved address; None when it may."""
        host = plain(host)
        if host not in self.named:
            return self._not_public(host, address)
        if plain(address) == host or is_reachable_by_name(address):
            return None
        return f"host {host!r} has the address {address}, which is link-local, multicast or reserved"

    def _not_public(self, host: str, address: str) -> str | None:
        if is_public(address):
            return None
        at = "is not a public address" if host == address else f"has the address {address}, which is not public"
        return f"host {host!r} {at}: start serve with --allow-http {host} if it is meant"


def plain(host: str) -> str:
    """One spelling for each host: lower case, no brackets, no dot at the end, addresses in their short form."""
    host = host.strip("[]").rstrip(".").lower()
    address = read(host)
    return host if address is None else str(address)


def _host(entry: str) -> str:
    """An entry as URLs spell it, international names as xn--...; ValueError when it is not a host."""
    host = plain(entry)
    try:
        found = URL(f"http://{host}/").raw_host if read(host) is None else host
    except ValueError:
        found = None
    if not found or (":" in host and read(host) is None) or set(host) & set("/@?#%* "):
        raise ValueError(f"{entry!r} is not a host: write a name or an address, without scheme, port or path")
    return plain(found)
