"""The one error type that users meet; every message is one sentence that says what to do."""


class UsageError(ValueError):
    """Something the user gave cannot be used; the command line prints it and exits with 2."""
