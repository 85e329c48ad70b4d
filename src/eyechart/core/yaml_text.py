"""Parse YAML written by users, with limits on nesting and on the expansion of aliases."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import yaml

ValuePath = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

MAX_DEPTH = 50
"""Maximum nesting of lists and mappings; no eyechart file needs more than five levels."""

MAX_VALUES = 1_000_000
"""Maximum number of values after every alias (*name) is expanded."""


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
            inside = node.value if isinstance(node, yaml.CollectionNode) else ()
            # those of a mapping are pairs of a key and a value
            children = chain(*inside) if isinstance(node, yaml.MappingNode) else inside
            size = 1 + sum(self._sizes.get(id(child), 1) for child in children)
            if size > MAX_VALUES:
                raise yaml.YAMLError(f"its aliases expand to more than {MAX_VALUES:,} values")
            self._sizes[id(node)] = size
        return node


def parse_yaml(text: str) -> Any:
    """Return the plain values of a YAML text.

    Raises:
        ValueError: The text is not YAML, or exceeds the limits on nesting or size; the message is
            one line without a full stop.
    """
    return _parse(text, has_lines=False)[0]


def parse_yaml_lines(text: str) -> tuple[Any, dict[ValuePath, int]]:
    r"""Return the plain values of a YAML text, and the line of each key and list item.

    Raises:
        ValueError: `parse_yaml` rejects the text, or a mapping contains a key twice.

    Example:
        >>> parse_yaml_lines("a: 1\nb:\n- 2\n- c: 3")[1]
        {('a',): 1, ('b',): 2, ('b', 0): 3, ('b', 1): 4, ('b', 1, 'c'): 4}
    """
    return _parse(text, has_lines=True)


def _lines_in(node: yaml.Node, path: ValuePath) -> Iterator[tuple[ValuePath, int]]:
    """Yield the path and the line of every key and list item below a node."""
    # an alias can be part of the value that it refers to, so the limit on the text does not suffice
    if len(path) > MAX_DEPTH:
        raise yaml.YAMLError(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            # YAML forbids it, but PyYAML would silently use the last one
            if name in seen:
                raise yaml.YAMLError(f"line {line}: {name} is already given in line {seen[name]}")
            seen[name] = line
            yield (*path, name), line
            yield from _lines_in(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*path, index), item.start_mark.line + 1
            yield from _lines_in(item, (*path, index))


def _parse(text: str, *, has_lines: bool) -> tuple[Any, dict[ValuePath, int]]:
    try:
        loader = _BoundedLoader(text)  # rejects control characters, so it belongs inside `try`
        node = loader.get_single_node()
        if node is None:
            return None, {}
        # before the values are made, because that rewrites mappings that are merged into others
        lines = dict(_lines_in(node, ())) if has_lines else {}
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split()).rstrip(".")) from None
