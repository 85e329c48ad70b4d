"""A study's server as a process: `python experiment_load_server.py STUDY PORT PACE MODE`."""

import sys

from eyechart.experiment import serve
from eyechart.experiment.folder import open_study


def main(path: str, port: int, pace: float, mode: str) -> None:
    # nobody here opens the pages, which are built apart
    serve.is_built = lambda: True
    own = serve.listen("127.0.0.1", port)
    print(own.getsockname()[1], flush=True)
    server, database = serve.make_server(open_study(path), pace=pace)
    try:
        server.run(sockets=[own])
    finally:
        database.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
