"""YAML texts of users as plain values: small enough to work with, or a sentence why not."""

from typing import Any

import yaml

MAX_DEPTH = 50
"""How deeply lists and mappings may be nested; no file of ours needs more than five levels."""

MAX_VALUES = 1_000_000
"""How many values a text may stand for once every alias (*name) is written out."""


class _BoundedLoader(yaml.SafeLoader):
    """The safe loader, which follows nesting by recursion and aliases without counting, bounded."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self._depth >= MAX_DEPTH:
            raise yaml.YAMLError(f"it is nested more than {MAX_DEPTH} levels deep")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and id(node) not in self._sizes:
            size = 1 + sum(self._sizes.get(id(child), 1) for child in _inside(node))
            if size > MAX_VALUES:
                raise yaml.YAMLError(f"its aliases stand for more than {MAX_VALUES:,} values")
            self._sizes[id(node)] = size
        return node


def _inside(node: yaml.Node) -> list[yaml.Node]:
    """Return the nodes that a list or a mapping holds; a single value holds none."""
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def parse_yaml(text: str) -> Any:
    """Return the plain values that a YAML text stands for.

    Raises:
        ValueError: The text is not YAML, or nested or repeated beyond any use; the message is one
            line without a full stop.
    """
    try:
        loader = _BoundedLoader(text)  # which already rejects control characters
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split()).rstrip(".")) from None
