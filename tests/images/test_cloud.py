"""A run between buckets of an S3 server, with the packages of the extra `cloud`.

`tests/support/adapters_check.sh cloud` runs this in an environment that has them.
"""

import pytest

import eyechart as ec
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import PartFiles
from eyechart.core.storage.remote import output_folder
from eyechart.images.imageset import load_images
from small_models import SMALL, Colors


@pytest.fixture(scope="module")
def system():
    """S3 as moto serves it on this machine, with an empty bucket."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server")
    import fsspec

    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        system = fsspec.filesystem("s3")
        system.mkdir("study")
        yield system
        type(system).clear_instance_cache()
    running.stop()


def test_a_run_from_a_bucket_to_a_bucket_equals_a_local_run(system, folder, tmp_path):
    for path in folder.rglob("*.png"):
        system.put_file(str(path), f"study/photos/{path.relative_to(folder).as_posix()}")
    expected = ec.evaluate(Colors(), folder, out=tmp_path / "local", **SMALL)
    results = ec.evaluate(Colors(), "s3://study/photos", out="s3://study/run", **SMALL)
    assert results.models == expected.models
    names = {path.rpartition("/")[2] for path in system.find("study/run")}
    assert "run.json" in names and not any("--" in name for name in names)
    assert load_images("s3://study/photos").digests == load_images(folder).digests


def test_a_killed_run_resumes_from_the_bucket(system):
    import pyarrow as pa

    killed = output_folder("s3://study/killed")
    out = killed.__enter__()
    PartFiles(out.path).write("fog", pa.table({"row": [1, 2]}))
    with output_folder("s3://study/killed") as again:
        assert PartFiles(again.path).read("fog")["row"].to_pylist() == [1, 2]


def test_a_missing_bucket_is_named(system):
    with pytest.raises(UsageError, match="s3://nowhere/photos"):
        load_images("s3://nowhere/photos")
