"""The errors that users meet; every message is one sentence that says what to do."""


class UsageError(ValueError):
    """Something the user gave cannot be used; the command line prints it and exits with 2."""


class CheckFailed(Exception):
    """A check that was asked for found something; `results` are those of the run all the same."""

    def __init__(self, sentence: str, results: object) -> None:
        super().__init__(sentence)
        self.results = results
