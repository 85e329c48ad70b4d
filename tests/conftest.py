"""What all tests may ask for."""

import pytest
from hypothesis import settings

from commands import Result
from eyechart.cli.app import main

# machines are noisy, and a test that fails must fail again
settings.register_profile("ours", deadline=None, derandomize=True, database=None)
settings.load_profile("ours")


@pytest.fixture
def run(capsys):
    """Run the command in this process."""

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        code = stop.value.code
        return Result(code if isinstance(code, int) else 0, said.out, said.err)

    return call
