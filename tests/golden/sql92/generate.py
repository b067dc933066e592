"""The expressions and messages of the SQL92 corpus: some written by hand, one per rule, the rest from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

SEED = 5_3_3
MESSAGE_COUNT = 72
EXPRESSION_COUNT = 2400

NAMES = ["a", "b", "c", "d", "_x$1", "TAGS", "absent", "A", "notion", "in_"]
VALUES = """
0 1 5 -5 +5 10 007 9 99 -0 +0 + - -- 2147483647 2147483648 -2147483648 -2147483649 9223372036854775807
9223372036854775808 -9223372036854775808 -9223372036854775809 00000000000000000000000005 9007199254740993
5.0 5.5 5.50 .5 5. . 1e3 1E-3 1e+3 1e 1e400 -1e400 1e-400 4.9E-324 0.1 -0.0 0.0 0e0 3.0 9007199254740992.0
NaN +NaN -NaN nan NAN Infinity -Infinity +Infinity inf infinity 5f 5F 5d 5.5D 5L 5l 0x10 0x1p3 0X1.8P-2 0x.8p1 0x.p1
0x1p99999 0x1p-99999 0x1 1_000 1,000 true TRUE tRuE True false FALSE yes null NULL x y xy yx X xyz a'b '' red blue
ä café ﬁ 日本 ٣ １２ 𝟓 ² ½ 5ä %% _ * 2024-01-31 1.2.3 TagA TagB
""".split()  # noqa: SIM905 - reads better than a hundred quoted strings
VALUES += ["", " 5", "5 ", "\t5\n", " ", "x y", "5\u00a0", "\u00005", "x\u0001y", "a" * 200, "1" * 400]

# One for each rule and special case; each is evaluated with every message.
BY_HAND = """
a
NOT a
NOT NOT a
NULL
TRUE
FALSE
not true
5
'x'
-a
+a
-5
(a)
((a = 5))
a = 5
a=5
a <> 5
a != 5
a == 5
5 = a
a = 5L
a = 5l
a = 05
a = 0
a = 0L
a = 00
a = -0
a = 2147483647
a = 2147483648
a = 9223372036854775807
a = 9223372036854775808
a = -9223372036854775808
a = 5.
a = .5
a = 5.5
a = 5.5f
a = 0.0
a = -0.0
a = 0e5
a = 1e3
a = 1E+3
a = 1e400
a = 1e-400
a = 4.9E-324
a > 1.7976931348623157E308
a > 1.7976931348623159E308
a = 'x'
a = 'it''s'
a = 'a''b'
a = ''''
a = ''
a = "x"
a = 'x
a = TRUE
a = FALSE
a <> TRUE
TRUE = a
FALSE <> a
TRUE = TRUE
TRUE = FALSE
TRUE = 5
5 = TRUE
'x' = TRUE
TRUE = 'x'
1 = 1
1 = 2
1 = 1.0
1 = '1'
'1' = 1
'a' = 1
1 > 2
2 > 1
1 < 1.5
'a' > 'b'
'a' = 'a'
a = NULL
NULL = a
a <> NULL
NULL = NULL
a IS NULL
a IS NOT NULL
a IS
a IS TRUE
a IS NOT
5 IS NULL
NULL IS NULL
NULL IS NOT NULL
'x' IS NOT NULL
a IS NULL IS NULL
a = b
a <> b
a = a
absent = absent
absent = a
a = absent
a > b
a >= b
a < b
a <= b
absent > a
a > absent
NOT a = 5
NOT (a = 5)
NOT a > 5
NOT (a > 5)
NOT a IN ('x')
NOT a IS NULL
NOT (a IS NULL)
NOT absent
NOT absent = TRUE
a > 5
a >= 5
a < 5
a <= 5
a > -5
a > - 5
a > --5
a > + 5
a > +-+5
5 < a
5 >= a
-5 < a
a > 5.5
5.5 > a
a > 2147483648
a > -2147483648
a > 'x'
a > '5'
a > TRUE
a > NULL
NULL > a
a > (b > 5)
a > -b
-a > 5
-a = 5
-a IS NULL
-(a > 5) IS NULL
-(a > b) = 5
-'x' IS NULL
-TRUE IS NULL
--5 = 5
- -5 = 5
a > 5 > 3
a > 5 = TRUE
a = 5 = TRUE
(a > 5) = (b > 5)
(a = 'x') = 'true'
'true' = (a = 'x')
(a = 'x') = 5
5 = (a = 'x')
(a = 'x') <> FALSE
a = (b = 'x')
a = b = c
a = 5 > 3
a BETWEEN 1 AND 10
a between 1 and 10 and b = 'x'
a BETWEEN 10 AND 1
a BETWEEN 5 AND 5
a BETWEEN -5 AND 5
a BETWEEN 5 AND -5
a BETWEEN 1.5 AND 10
a BETWEEN 10 AND 1.5
a BETWEEN 9007199254740993 AND 9007199254740992.0
a BETWEEN '1' AND '5'
a BETWEEN '5' AND 1
a BETWEEN NULL AND 5
a BETWEEN TRUE AND FALSE
a BETWEEN b AND c
a BETWEEN b AND 5
5 BETWEEN a AND b
a NOT BETWEEN 1 AND 10
a NOT BETWEEN 10 AND 1
a NOT BETWEEN 'x' AND 'y'
a BETWEEN 1 AND 2 BETWEEN 3 AND 4
a BETWEEN 1
a IN ('x')
a IN ('x', 'y','5')
a in ('x','y','xy','red','blue','5','TagA')
a NOT IN ('x', 'y')
a NOT IN ('x','y','xy','red','blue','5','TagA')
a IN ('')
a IN ()
a IN ('x',)
a IN (5)
a IN ('x', 5)
a IN 'x'
(a) IN ('x')
+a IN ('x')
-a IN ('x')
'x' IN ('x')
5 IN ('5')
(a = 5) IN ('x')
a IN ('x') IN ('y')
a IN ('x', 'x', 'x')
a IN ('it''s', 'a''b')
a CONTAINS 'x'
a NOT CONTAINS 'x'
a CONTAINS ''
a NOT CONTAINS ''
a CONTAINS 5
a CONTAINS b
absent CONTAINS 'x'
absent NOT CONTAINS 'x'
'xyz' CONTAINS 'y'
'xyz' NOT CONTAINS 'y'
5 CONTAINS '5'
5 NOT CONTAINS '5'
NULL CONTAINS 'x'
TRUE CONTAINS 'TRUE'
-a CONTAINS 'x'
-(a > b) CONTAINS ''
-(a > b) CONTAINS 'x'
(a > b) CONTAINS 'x'
a CONTAINS 'x' CONTAINS 'y'
NOT a CONTAINS 'x'
NOT (a CONTAINS 'x')
a STARTSWITH 'x'
a NOT STARTSWITH 'x'
a startswith ''
a ENDSWITH 'y'
a NOT ENDSWITH 'y'
a EndsWith 'é'
a CONTAINS 'ä'
a LIKE 'x'
a AND b
a OR b
a AND TRUE
a OR TRUE
TRUE OR a > 5
a > 5 OR TRUE
FALSE AND a > 5
a > 5 AND FALSE
NULL AND FALSE
NULL OR TRUE
NULL AND TRUE
NULL OR FALSE
absent = 5 OR a = 'x'
absent = 5 AND a = 'x'
absent = 5 AND a = 5
absent = 'x' AND b > 5
a = 'x' AND b > 5
b > 5 AND a = 'x'
a = 'x' OR b > 5
b > 5 OR a = 'x'
a = 'x' OR a = 'y' AND b = 'x'
(a = 'x' OR a = 'y') AND b = 'x'
a = 'x' AND b = 'x' OR c = 'x' AND d = 'x'
a AND 5
5 AND a
a OR 'x'
a AND
OR a
AND
()
(a
a)
a b
a = 5 b
a = 5 NOT b
a = 5 'x'
a = 5 ) or (
a = 5 , b
a = 5 #
a = 5 b #
a = 5 $
a = 5;
a = 5 + 3
a = 5 -3
a + 5 = 10
a * 5 = 10
a NOT b
a NOT
NOT
a IS b
a.b = 5
a-b = 5
a$ = 5
$a = 5
_x$1 = 5
1a = 5
TAGS = 'TagA'
TAGS IN ('TagA','TagB') AND a > 5
tags = 'TagA'
A = 5
notion = 5
in_ = 5
in = 5
IN = 5
contains = 5
nothing IS NULL
NOT(a = 5)
NOT'x' = a
a IN('x')AND b='y'
a=5AND b=5
a=5and b=5
a>5or b>5
a/**/=5
a /* = */ = /* 5 */ 5
a /* unclosed = 5
a = 5 /* unclosed
a /***/ = 5
a /*/ = 5
a /* * / */ = 5
-- a
now = 5
İn = 5
a ıs null
ſ = 5
K = 5
日本 = 5
a = '日本'
a\u00a0= 5
a\x0b= 5
a\x0c=\t5
a =\n5
a = 5 -- tail
a = 5 -- tail\nAND b = 5
-- head\na = 5
a = 5 --\rAND b = 5
a = --5
a = --5\n
a = -- 5\n 6
a --\r\n= 5
a <= > 5
a < > 5
a >< 5
a => 5
a = = 5
a =< 5
a <>5
a<>-5
a>-5
a>=-5.5
""".strip("\n").split("\n")
BY_HAND = [line.encode().decode("unicode_escape") if "\\" in line else line for line in BY_HAND]
BY_HAND += [
    "",
    " ",
    "\n",
    "a = '" + "x" * 300 + "'",
    "a = " + "9" * 300,
    "a = " + "1" * 300 + ".5",
    "a = 1." + "0" * 300,
]
BY_HAND += ["(" * 50 + "a" + ")" * 50, "NOT " * 40 + "a", "-" * 41 + "5 = a", " AND ".join(["a"] * 200)]


def messages() -> list[str]:
    """Return raw property strings, among them missing names, repeated names and empty values."""
    rng = random.Random(SEED)
    made = [
        "",
        "a\u00015",
        "a\u0001x\u0002b\u0001y\u0002",
        "a\u00015\u0002a\u0001\u0002",
        "\u0002\u0002a\u0001x",
        "a\u0002b\u0001y",
    ]
    # Every value once at `a`, then random ones.
    made += [_message(rng, first) for first in rng.sample(VALUES, len(VALUES))]
    while len(made) < MESSAGE_COUNT:
        made.append(_message(rng, rng.choice(VALUES)))
    return made


def _message(rng: random.Random, first: str) -> str:
    pairs = [("a", first)]
    pairs += [(name, rng.choice(VALUES)) for name in NAMES[1:] if name != "absent" and rng.random() < 0.7]
    if rng.random() < 0.15:
        pairs.append((rng.choice(pairs)[0], rng.choice(VALUES)))
    rng.shuffle(pairs)
    text = "".join(f"{name}\u0001{value}\u0002" for name, value in pairs)
    return text[:-1] if rng.random() < 0.3 else text


def expressions() -> list[str]:
    """Return the hand-written ones, all pairs of operands under each comparison, and random ones, whole and damaged."""
    operands = ["a", "absent", "-a", "5", "-5", "3000000000", "5.5", "'5'", "TRUE", "NULL", "(b = 'x')", "(b > 5)"]
    made = list(BY_HAND)
    made += [f"{left} {sign} {right}" for left, sign, right in product(operands, ("=", "<>", "<", ">="), operands)]
    writer = _Writer(random.Random(SEED + 1))
    while len(made) < EXPRESSION_COUNT:
        made.append(writer.expression())
    return list(dict.fromkeys(made))


class _Writer:
    """Writes expressions that are mostly valid; one in four is damaged."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def expression(self) -> str:
        words = self._condition(self._rng.choice((1, 2, 2, 3, 3, 4)))
        if self._rng.random() < 0.25:
            for _ in range(self._rng.randint(1, 2)):
                self._damage(words)
        return self._spaced(words)

    def _condition(self, depth: int) -> list[str]:
        rng = self._rng
        if depth <= 1:
            return self._simple()
        kind = rng.random()
        if kind < 0.4:
            return [*self._condition(depth - 1), "AND", *self._condition(depth - 1)]
        if kind < 0.75:
            return [*self._condition(depth - 1), "OR", *self._condition(depth - 1)]
        if kind < 0.85:
            return ["NOT", "(", *self._condition(depth - 1), ")"]
        if kind < 0.9:
            return ["NOT", *self._condition(depth - 1)]
        if kind < 0.97:
            return ["(", *self._condition(depth - 1), ")"]
        return ["(", *self._condition(depth - 1), ")", rng.choice(("=", "<>")), "(", *self._condition(depth - 1), ")"]

    def _simple(self) -> list[str]:
        rng = self._rng
        name, negated = rng.choice(NAMES), ["NOT"] if rng.random() < 0.3 else []
        makers: list[Callable[[], list[str]]] = [
            lambda: [name, rng.choice(("=", "<>")), self._text()],
            lambda: [name, rng.choice(("=", "<>")), *self._number()],
            lambda: [name, rng.choice(("<", "<=", ">", ">=")), *self._number()],
            lambda: [*self._number(), rng.choice(("<", "<=", ">", ">=", "=")), name],
            lambda: [name, rng.choice(("=", "<>", "<", "<=", ">", ">=")), rng.choice(NAMES)],
            lambda: [name, *negated, "BETWEEN", *self._number(), "AND", *self._number()],
            lambda: [name, *negated, "IN", "(", *self._texts(), ")"],
            lambda: [name, *negated, rng.choice(("CONTAINS", "STARTSWITH", "ENDSWITH")), self._text()],
            lambda: [name, "IS", *negated, "NULL"],
            lambda: [name, rng.choice(("=", "<>")), rng.choice(("TRUE", "FALSE"))],
            lambda: [rng.choice((name, "TRUE", "FALSE", "NULL"))],
        ]
        return rng.choice(makers)()

    def _number(self) -> list[str]:
        rng = self._rng
        digits = rng.choice(
            ("0", "1", "5", "10", "5.5", "5.0", ".5", "1e3", "99", "2147483647", "2147483648", "9007199254740993", "7L")
        )
        return [*rng.choice(([], [], [], ["-"], ["-"], ["+"])), digits]

    def _text(self) -> str:
        return "'" + self._rng.choice(VALUES)[:20].replace("'", "''") + "'"

    def _texts(self) -> list[str]:
        return " , ".join(self._text() for _ in range(self._rng.randint(1, 8))).split(" ")

    def _damage(self, words: list[str]) -> None:
        rng = self._rng
        at = rng.randrange(len(words)) if words else 0
        kind = rng.random()
        if kind < 0.35 and words:
            del words[at]
        elif kind < 0.6 and words:
            words[at] = rng.choice(words)
        elif kind < 0.8:
            extra = (
                "AND",
                "NOT",
                "(",
                ")",
                "5",
                "'x'",
                "a",
                "=",
                "IS",
                "-",
                "#",
                "!",
                "IN",
                "BETWEEN",
                "''",
                "TRUE",
                "5.5",
            )
            words.insert(at, rng.choice(extra))
        elif words:
            word = words[at]
            cut = rng.randrange(len(word) + 1)
            words[at] = word[:cut] + word[cut + 1 :]

    def _spaced(self, words: list[str]) -> str:
        """Join words in any case, with all sorts of blanks and comments between them."""
        rng = self._rng
        parts: list[str] = []
        for word in words:
            keyword = (
                word.isalpha()
                and word.upper() == word
                and word not in ("A", "TAGS", "NULL" if rng.random() < 0.5 else "")
            )
            parts.append(rng.choice((word, word.lower(), word.capitalize())) if keyword else word)
            parts.append(rng.choices((" ", "  ", "\t", "\n", "/* c */", " --c\n"), (60, 5, 2, 2, 1, 1))[0])
        return "".join(parts).strip(" ")
