"""How a subcommand ends early: with a sentence for the user and an exit status."""


class Stop(Exception):
    """Ends the command; what was done until then is kept."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status
