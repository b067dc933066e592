"""Random resources, entries and policies from small alphabets, so that they often meet."""

from __future__ import annotations

from hypothesis import strategies as st

from pymq.model.access import EVERY_NAME, Action, Resource, ResourceKind
from pymq.security.addresses import parse_address, parse_block
from pymq.security.policies import Effect, Entry, Policy, ResourcePattern

NAMES = st.sampled_from(["a", "b", "ab", "aba", "bb"])
KINDS = st.sampled_from(ResourceKind)
ACTIONS = st.sampled_from(Action)
RESOURCES = st.builds(Resource, KINDS, NAMES | st.just(EVERY_NAME))
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.1.1", "192.168.0.1", "fe80::1"]).map(parse_address)
BLOCKS = st.sampled_from(["10.0.0.0/24", "10.0.0.1", "10.0.0.0/8", "fe80::/16", "0.0.0.0/0"]).map(parse_block)
PATTERN_TEXTS = st.just("*") | st.builds(
    lambda kind, name: f"{kind.value}:{name}", KINDS, st.just("*") | NAMES | NAMES.map(lambda name: f"{name}*")
)
ENTRIES = st.builds(
    Entry,
    PATTERN_TEXTS.map(ResourcePattern.parse),
    st.frozensets(ACTIONS, min_size=1, max_size=3),
    st.sampled_from(Effect),
    st.lists(BLOCKS, max_size=2).map(tuple),
)
POLICIES = st.builds(Policy, st.lists(ENTRIES, max_size=3).map(tuple), st.lists(ENTRIES, max_size=2).map(tuple))
