"""What was made lately, kept so that it need not be made again."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Recent(Generic[Key, Made]):
    """The last `most` things that `make` made, by what they were made of; each is made once.

    Threads wait for each other: two that ask for the same thing do not both make it.
    """

    def __init__(self, make: Callable[[Key], Made], most: int) -> None:
        self._make, self._most = make, most
        self._kept: OrderedDict[Key, Made] = OrderedDict()
        self._lock = RLock()

    def __getitem__(self, key: Key) -> Made:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._make(key)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return self._kept[key]
