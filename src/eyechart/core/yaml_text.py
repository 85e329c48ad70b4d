"""Parse YAML written by users, with limits on nesting and on the expansion of aliases."""

from typing import Any

import yaml

MAX_DEPTH = 50
"""Maximum nesting of lists and mappings; none of our files needs more than five levels."""

MAX_VALUES = 1_000_000
"""Maximum number of values once every alias (*name) is expanded."""


class _BoundedLoader(yaml.SafeLoader):
    """A SafeLoader with limits on nesting and on aliases, which PyYAML does not have."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # PyYAML recurses: without a limit, deep nesting ends in a RecursionError
        if self._depth >= MAX_DEPTH:
            raise yaml.YAMLError(f"it is nested more than {MAX_DEPTH} levels deep")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        # ids stay unique, because all nodes are alive until the whole text is composed
        if node is not None and id(node) not in self._sizes:
            # an alias is the same node again, so its full size counts each time
            size = 1 + sum(self._sizes.get(id(child), 1) for child in _inside(node))
            if size > MAX_VALUES:
                raise yaml.YAMLError(f"its aliases expand to more than {MAX_VALUES:,} values")
            self._sizes[id(node)] = size
        return node


def _inside(node: yaml.Node) -> list[yaml.Node]:
    """Return the child nodes of a list or a mapping; a scalar has none."""
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def parse_yaml(text: str) -> Any:
    """Return the plain values of a YAML text.

    Raises:
        ValueError: The text is not YAML, or exceeds the limits on nesting or size; the message is
            one line without a full stop.
    """
    try:
        loader = _BoundedLoader(text)  # rejects control characters, so it belongs inside `try`
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split()).rstrip(".")) from None
