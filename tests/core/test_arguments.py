"""Arguments of public functions."""

import socket
from pathlib import Path

import pytest

from eyechart.core.arguments import NotRegularFile, regular_file


def test_sockets_and_devices_are_no_regular_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(NotRegularFile, match=r"Cannot read socket: .* but it is a socket\."):
            regular_file(Path("socket"))
    with pytest.raises(NotRegularFile, match=r"Cannot read /dev/zero: .* but it is a device\."):
        regular_file(Path("/dev/zero"))


def test_links_to_regular_files_are_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").touch()
    assert regular_file(tmp_path / "link") == tmp_path / "link"
