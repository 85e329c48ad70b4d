"""A study that is served with TLS, by the name in its certificate."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eyechart_experiment.server.serve import listen, make_server
from eyechart_experiment.storage.experiment_folder import StudyFolder

DOMAIN = "lab.example.org"


@contextmanager
def deployed(folder: StudyFolder, room: Path) -> Iterator[str]:
    """Serve a study inside the `with` block; yield its address."""
    key, certificate = room / "privkey.pem", room / "fullchain.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={DOMAIN}",
         "-addext", f"subjectAltName=DNS:{DOMAIN}",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    server, study = make_server(folder, pace=100.0)
    server.config.ssl_keyfile, server.config.ssl_certfile = key, certificate
    with study, listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"https://{DOMAIN}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
