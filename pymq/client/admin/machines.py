"""The workers that a machine's name stands for: brokers of one machine, by what they say of themselves.

Only PyMQ's brokers say it, in their runtime table. A name that no worker claims is a broker's own, on any cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MACHINE_KEY, NUMBER_KEY, COUNT_KEY = "pymqMachine", "pymqWorker", "pymqWorkers"

Tables = Mapping[str, Mapping[str, str] | None]  # runtime tables by broker name; None for one that did not answer


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place: its machine, its number there, and the number of workers."""

    machine: str
    number: int
    count: int


def place_of(table: Mapping[str, str] | None) -> Place | None:
    """Return the place that a broker's runtime table says, None for a broker alone."""
    if not table or not table.get(MACHINE_KEY):
        return None
    number, count = table.get(NUMBER_KEY, ""), table.get(COUNT_KEY, "")
    if not (number.isdecimal() and count.isdecimal() and len(number) <= 3 and len(count) <= 3):
        return None
    return Place(table[MACHINE_KEY], int(number), int(count))


def place_table(place: Place) -> dict[str, str]:
    """Return a place as a broker says it in its runtime table."""
    return {MACHINE_KEY: place.machine, NUMBER_KEY: str(place.number), COUNT_KEY: str(place.count)}


def candidates(name: str, registered: Iterable[str]) -> list[str]:
    """Return the registered brokers that ``name`` may stand for, if their tables say so."""
    names = set(registered)
    numbered = [one for one in names if _number(name, one) is not None]
    if numbered:
        return sorted(numbered + [name] * (name in names))
    kept = name.removesuffix("-0")
    return [kept] if name not in names and kept != name and kept in names else [name] * (name in names)


def workers_of(name: str, tables: Tables) -> list[str]:
    """Return the brokers that ``name`` stands for: the workers of that machine by number, or the broker itself.

    ``tables`` has those of :func:`candidates`. A worker that does not answer counts by its name when another one says
    that the machine has so many. ``NAME-0`` stands for a worker 0 that kept the name of its machine.
    """
    places = {broker: place_of(table) for broker, table in tables.items()}
    numbers = {broker: place.number for broker, place in places.items() if place is not None and place.machine == name}
    if numbers:
        count = max(place.count for place in places.values() if place is not None and place.machine == name)
        for broker, table in tables.items():
            number = _number(name, broker)
            if table is None and number is not None and number < count and number not in numbers.values():
                numbers[broker] = number
        if all(table is None for broker, table in tables.items() if broker == name) and 0 not in numbers.values():
            numbers |= {name: 0} if name in tables else {}
        return sorted(numbers, key=numbers.__getitem__)
    kept = name.removesuffix("-0")
    place = places.get(kept)
    if kept != name and place is not None and (place.machine, place.number) == (kept, 0):
        return [kept]
    return [name] if name in tables else []


def _number(machine: str, broker: str) -> int | None:
    """Return i of a broker named ``MACHINE-i``, None for another name."""
    rest = broker.removeprefix(f"{machine}-")
    return int(rest) if rest != broker and rest.isdecimal() and rest == str(int(rest[:3])) else None
