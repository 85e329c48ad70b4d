"""The exceptions that users see; every message is one sentence that says what to do."""


class UsageError(ValueError):
    """Invalid user input; the command line prints the message and exits with status 2.

    It is a subclass of ValueError, so code that catches ValueError needs no change.

    Example:
        >>> import eyechart as ec
        >>> try:
        ...     ec.describe_corruption("gausian_noise")
        ... except ec.UsageError as error:
        ...     print(error)
        Unknown corruption 'gausian_noise'. Did you mean 'gaussian_noise'...
    """


class CheckFailed(Exception):
    """A requested check failed (such as `fail_under`) after the evaluation was completed.

    Attributes:
        results: the results of the run, which are complete despite the failed check.

    Example:
        >>> import eyechart as ec
        >>> try:
        ...     raise ec.CheckFailed("HMRI of resnet50 is below 0.9.", results=None)
        ... except ec.CheckFailed as failure:
        ...     print(failure)
        HMRI of resnet50 is below 0.9.
    """

    def __init__(self, sentence: str, results: object) -> None:
        super().__init__(sentence)
        self.results = results
