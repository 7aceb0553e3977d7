"""Which addresses may an HTTP target be sent to? Pure: no asyncio, clock, randomness, files or sockets.

An IPv6 address can carry an IPv4 address inside, and then the packet may go to that one: `64:ff9b::7f00:1` is 127.0.0.1
behind a NAT64 gateway. So an address is judged by what it carries, in every form a system may translate:

    form          prefix                carries
    mapped        ::ffff:0:0/96         the last 32 bits (also ::ffff:0:0:0/96, and the old ::/96)
    NAT64         64:ff9b::/96          the last 32 bits
    6to4          2002::/16             bits 16 to 48
    Teredo        2001::/32             the server (bits 32 to 64) and the client (the last 32 bits, inverted)
    ISATAP        ...:5efe:0:0          the last 32 bits, and the address itself

>>> is_public("93.184.215.14"), is_public("64:ff9b::7f00:1"), is_public("224.0.0.1"), is_public("::ffff:10.0.0.1")
(True, False, False, False)
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_LOW_32 = [IPv6Network(text) for text in ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "::/96")]
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # the only part of IPv6 that is handed out for public use
# Not for public use, whatever this Python's tables say: protocol assignments, 6to4 relays, documentation.
_WITHHELD = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("3fff::/20"))
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_MASK = 0xFFFF_FFFF

Address = IPv4Address | IPv6Address


def read(text: str) -> Address | None:
    """The address that `text` is in its plain notation, without a scope; None when it is a name."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def carried(address: Address) -> list[Address]:
    """Every address at which a packet to `address` may end."""
    if isinstance(address, IPv4Address):
        return [address]
    number = int(address)
    low = IPv4Address(number & _MASK)
    if any(address in network for network in _LOW_32):
        # ::1 and :: are addresses of their own, not carriers.
        return [address] if number <= 1 else [low]
    if address in _SIX_TO_FOUR:
        return [IPv4Address(number >> 80 & _MASK)]
    if address in _TEREDO:
        return [IPv4Address(number >> 64 & _MASK), IPv4Address(~number & _MASK)]
    if number >> 32 & _MASK in _ISATAP:
        return [address, low]
    return [address]


def is_public(text: str) -> bool:
    """Whether a packet to this address ends at public unicast addresses only. False for what is no address."""
    address = read(text)
    return address is not None and all(map(_is_public, carried(address)))


def _is_public(address: Address) -> bool:
    if address.is_multicast or not address.is_global or any(address in network for network in _WITHHELD):
        return False
    return isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST


def is_reachable_by_name(text: str) -> bool:
    """Whether a host that the operator named may lie at this address: public, private and loopback ones.

    Link-local ones, where clouds serve their credentials, and multicast, unspecified and reserved ones are not meant by
    a name; an operator who wants one of them names the address itself.
    """
    address = read(text)
    return address is not None and all(map(_is_ordinary, carried(address)))


def _is_ordinary(address: Address) -> bool:
    odd = address.is_multicast or address.is_unspecified or address.is_link_local
    return not odd and (address.is_loopback or not address.is_reserved)
