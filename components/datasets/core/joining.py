"""Names joined into groups: what is tied to a tie is tied, however long the chain."""


class Joined:
    """A group is called by the smallest of its names, so that its name owes nothing to the order of joining."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def root(self, name: str) -> str:
        """The name of the group of `name`; a name never joined is a group of its own."""
        while self._parents.setdefault(name, name) != name:
            self._parents[name] = self._parents[self._parents[name]]
            name = self._parents[name]
        return name

    def join(self, one: str, other: str) -> None:
        low, high = sorted((self.root(one), self.root(other)))
        self._parents[high] = low
