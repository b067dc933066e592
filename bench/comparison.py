"""Measures whether a check's time tells how much of a signature is right: ``python -m bench.comparison``.

Signatures are right, or wrong in their first, middle or last character, and checked in turns. The figure is the least
processor time of a check in any round. No test fails by it: on a busy machine noise is larger than a leak.
"""

from __future__ import annotations

import sys
import time

from pymq.security.signature import Secret

CHECKS = 2000  # a round
ROUNDS = 100
CONTENT = b"c" * 256


def main() -> None:
    """Print a line for each kind of signature, and the largest difference."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    secret = Secret("a-secret-of-a-user")
    right = secret.sign(CONTENT).encode()
    cases = {"right": right}
    for name, at in (("first", 0), ("middle", len(right) // 2), ("last", len(right) - 2)):
        other = b"A" if right[at : at + 1] != b"A" else b"B"
        cases[f"wrong in its {name} character"] = right[:at] + other + right[at + 1 :]
    least_ns = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, signature in cases.items():
            begin_ns = time.process_time_ns()
            for _ in range(CHECKS):
                secret.has_signed(CONTENT, signature)
            least_ns[name] = min(least_ns[name], (time.process_time_ns() - begin_ns) / CHECKS)
    for name, figure in least_ns.items():
        print(f"{name:32}{figure:8.1f} ns")
    print(f"{'largest difference':32}{max(least_ns.values()) - min(least_ns.values()):8.1f} ns")


if __name__ == "__main__":
    main()
