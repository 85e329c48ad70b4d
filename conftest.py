"""What all tests may ask for."""

import gc
import signal

import pytest
import torch
from hypothesis import settings

from commands import Result
from eyechart.cli.app import main
from eyechart.cli.shared import progress
from eyechart.corruptions.style import Styles, StyleTransfer, statistics
from eyechart.corruptions.suites.assets import VARIABLE, write_styles
from outside import pytest_terminal_summary  # noqa: F401 (pytest calls it at the end)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Never search for garbage among what packages and thousands of tests are made of.

    It stays until the end, and searching it again and again took a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_collection_modifyitems(items):
    """Begin with pages in a browser, which mostly wait: `make test` has lint beside them then."""
    items.sort(key=lambda item: not hasattr(item.module, "launched"))


# A shell lets what it runs in the background ignore Ctrl-C, which several tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)

# machines are noisy, and a test that fails must fail again
settings.register_profile("ours", deadline=None, derandomize=True, database=None)
settings.load_profile("ours")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command in this process."""
    # on a busy machine a step can take long enough for a line of progress between the messages
    monkeypatch.setattr(progress, "INTERVAL_S", 3600)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        code = stop.value.code
        return Result(code if isinstance(code, int) else 0, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def style_file(tmp_path_factory):
    """Return the file of a small style transfer that has learnt nothing, with three styles."""
    path = tmp_path_factory.mktemp("styles") / "style.pt"
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = StyleTransfer(16).eval()
        with torch.no_grad():
            features = network.encoder(torch.rand(3, 3, 64, 64))
    write_styles(Styles(network, *statistics(features)), path)
    return path


@pytest.fixture
def with_styles(style_file, monkeypatch):
    """Let the corruption style_transfer have its network."""
    monkeypatch.setenv(VARIABLE, str(style_file))
