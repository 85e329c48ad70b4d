"""`eyechart report --serve`: real runs on a real server, asked as a browser would."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import eyechart as ec
from commands import hear_interrupts
from eyechart.core.errors import UsageError
from eyechart.images.identity import content_keys
from eyechart.images.labels.imagenet import CATEGORIES, class_names, wordnet_ids
from eyechart.reports.browse.server import make_server, serve_report
from eyechart.reports.series.report import load_report
from nonempty import at_least_one
from published_files import arrays, publish
from report_runs import (
    BLIND,
    DULL,
    HOSTILE,
    SHARP,
    evaluate,
    hostile_run,
    human_run,
    levels_run,
    make_once,
)
from small_models import TINTS, save_images

NOISE = "vcr/gaussian_noise"
COLORS, FOUR = "small_models:pale_colors", "small_models:four_classes"
SMALL = ("--corruption", "gaussian_noise", "--humans", "none")


class Client:
    """Asks a server, each time over a connection of its own."""

    def __init__(self, server):
        self.port = server.server_port

    def ask(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        # the path goes out as it is, so that nothing is tidied up on the way
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        reply = connection.getresponse()
        reply.body = reply.read()
        connection.close()
        return reply

    def json(self, path, **query):
        reply = self.ask(f"{path}?{urlencode(query)}" if query else path)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def rejection(self, path, **query):
        """Return the status and the sentence."""
        reply = self.ask(f"{path}?{urlencode(query)}" if query else path)
        sentence = json.loads(reply.body)["error"]
        assert sentence.endswith((".", "?")) and "\n" not in sentence
        return reply.status, sentence

    def image(self, **query):
        reply = self.ask(f"/image?{urlencode(query)}")
        assert (reply.status, reply.headers["Content-Type"]) == (200, "image/png"), reply.body
        return np.asarray(Image.open(BytesIO(reply.body)))


@contextmanager
def serving(*folders, images=None):
    with make_server(load_report(list(folders)), images=images) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Client(server)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def vcr(tmp_path_factory):
    return make_once(tmp_path_factory, human_run)


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    return make_once(tmp_path_factory, levels_run)


@pytest.fixture(scope="module")
def both(vcr, levels):
    """Run 0 is of VCR's corruptions, run 1 of ImageNet-C's levels."""
    with serving(vcr, levels) as client:
        yield client


def recorded(run, file, model):
    """The rows of one model, read without anything of eyechart's."""
    rows = pq.read_table(run / "predictions" / f"{file}.parquet").to_pylist()
    return {row["row"]: row for row in rows if row["model"] == model}


def pixels_of(levels):
    """The digest that a test set keeps of a picture."""
    planes = torch.from_numpy(np.ascontiguousarray(levels.transpose(2, 0, 1)))
    return int(content_keys(planes[None]).numpy().view(np.uint64)[0])


# What there is


def test_tests_name_their_corruptions_models_and_label_spaces(both, vcr, levels):
    found = both.json("/api/runs")
    assert [run["folder"] for run in found["runs"]] == [str(vcr), str(levels)]
    assert [test["suite"] for test in found["tests"]] == ["vcr", "imagenet-c"]
    first = found["tests"][0]
    assert first["corruptions"][0] == {"name": NOISE, "title": "Gaussian noise"}
    assert {model["name"] for model in first["models"]} == {SHARP, DULL, BLIND}
    assert [own["name"] for own in first["models"][0]["spaces"]] == ["native", "entry16"]


def test_rows_are_all_that_were_recorded_from_mild_to_strong(both, vcr):
    own = recorded(vcr, "vcr-gaussian_noise", DULL)
    found = both.json("/api/rows", run=0, corruption=NOISE, model=DULL)
    assert len(found["rows"]) == len(own) > 80
    assert set(found["rows"]) == set(own)
    assert found["delta_v"] == [own[row]["delta_v"] for row in found["rows"]]
    assert found["delta_v"] == sorted(found["delta_v"])
    names = [found["images"][place] for place in found["image"]]
    assert names == [own[row]["image"] for row in found["rows"]]


def test_right_and_same_follow_from_the_recorded_predictions(both, vcr):
    own = recorded(vcr, "vcr-gaussian_noise", DULL)
    clean = {row["image"]: row["prediction"] for row in recorded(vcr, "clean", DULL).values()}
    found = both.json("/api/rows", run=0, corruption=NOISE, model=DULL)
    for row, correct, same in zip(found["rows"], found["correct"], found["same"], strict=True):
        assert correct == (wordnet_ids()[own[row]["prediction"]] == own[row]["label"])
        assert same == (own[row]["prediction"] == clean[own[row]["image"]])
    assert 0 < sum(found["correct"]) < len(own)


def test_peoples_categories_are_the_likeliest_ones(both, vcr):
    own = recorded(vcr, "vcr-gaussian_noise", DULL)
    asked = {"run": 0, "corruption": NOISE, "model": DULL, "space": "entry16"}
    found = both.json("/api/rows", **asked)
    for row, correct in zip(found["rows"], found["correct"], strict=True):
        said = CATEGORIES[int(np.argmax(own[row]["category_max"]))]
        assert correct == (said == own[row]["category"])
    assert found["curves"]["humans_a"]["values"]


def test_curves_are_those_of_the_results(both, vcr):
    saved = json.loads((vcr / "results.json").read_text())
    model = next(own for own in saved["models"] if own["name"] == SHARP)
    score = model["spaces"]["native"]["corruptions"][NOISE]
    curves = both.json("/api/rows", run=0, corruption=NOISE, model=SHARP)["curves"]
    assert curves["a"]["values"] == score["accuracy"]["curve"]["values"]
    assert curves["a"]["high"] == score["accuracy"]["curve"]["high95"]
    assert curves["p"]["delta_v"] == score["consistency"]["curve"]["delta_v"]
    assert "humans_a" not in curves and curves["notes"]


def test_a_row_tells_what_made_it_and_what_every_model_said(both, vcr):
    own = {model: recorded(vcr, "vcr-gaussian_noise", model) for model in (SHARP, DULL, BLIND)}
    for row in at_least_one(list(own[SHARP])[::20]):
        found = both.json("/api/row", run=0, row=row)
        first = own[SHARP][row]
        assert (found["delta_v"], found["image"]) == (first["delta_v"], first["image"])
        numbers = {each["name"]: each["value"] for each in found["parameters"]}
        assert numbers == dict(first["parameters"])
        assert [each["unit"] for each in found["parameters"]] == ["fraction of full scale"]
        assert found["truth"] == class_names()[wordnet_ids().index(first["label"])]
        assert {prediction["model"] for prediction in found["predictions"]} == set(own)
        for prediction in found["predictions"]:
            there = own[prediction["model"]][row]
            assert prediction["prediction"] == class_names()[there["prediction"]]
            assert prediction["confidence"] == pytest.approx(there["confidence"])
            assert prediction["correct"] == (wordnet_ids()[there["prediction"]] == there["label"])


def test_models_of_several_runs_of_one_test_stand_together(tmp_path):
    photos = save_images(tmp_path / "photos", each=3)
    for name, model in (("one", COLORS), ("two", FOUR)):
        asked = ("--n", 40, *SMALL, "--baseline", "none")
        evaluate(photos, tmp_path / name, *asked, models=(model,))
    with serving(tmp_path / "one", tmp_path / "two") as client:
        (test,) = client.json("/api/runs")["tests"]
        assert {model["name"]: model["run"] for model in test["models"]} == {COLORS: 0, FOUR: 1}
        row = client.json("/api/rows", run=1, corruption=NOISE, model=FOUR)["rows"][0]
        found = client.json("/api/row", run=1, row=row)
        said = {
            prediction["model"]: prediction["prediction"] for prediction in found["predictions"]
        }
        for name, model in (("one", COLORS), ("two", FOUR)):
            own = recorded(tmp_path / name, "vcr-gaussian_noise", model)[row]
            assert said.pop(model) == sorted(TINTS)[own["prediction"]]
        assert not said


def test_an_image_outside_peoples_categories_still_says_what_it_shows(tmp_path):
    photos = save_images(tmp_path / "photos", each=2, tints=("blue", "green", "grey"))
    for tint, place in (("blue", 404), ("green", 294), ("grey", 1)):
        (photos / tint).rename(photos / wordnet_ids()[place])
    asked = ("--n", 40, "--corruption", "gaussian_noise")
    evaluate(photos, tmp_path / "run", *asked, models=("small_models:thousand",))
    own = recorded(tmp_path / "run", "vcr-gaussian_noise", "small_models:thousand")
    with serving(tmp_path / "run") as client:
        found = {
            row["label"]: client.json("/api/row", run=0, row=number, space="entry16")
            for number, row in own.items()
        }
    goldfish, airliner = (found[wordnet_ids()[place]] for place in (1, 404))
    assert goldfish["truth"] == f"{class_names()[1]} (none of the 16 categories)"
    assert (airliner["truth"], airliner["predictions"][0]["correct"] in (0, 1)) == (
        "airplane",
        True,
    )
    assert goldfish["predictions"][0]["correct"] == -1


# Pictures


def test_an_image_has_the_pixels_that_corrupt_gives(both, levels):
    own = recorded(levels, "gaussian_noise", SHARP)
    images = ec.load_images(json.loads((levels / "results.json").read_text())["run"]["images"])
    paths = {image.name: image.path for image in images.listed}
    for row in at_least_one(list(own.values())[::40]):
        clean = np.asarray(Image.open(paths[row["image"]]).convert("RGB"))
        made = ec.corrupt(
            clean, "gaussian_noise", severity=row["severity"], keys=[row["digest"]], seed=0
        )
        assert np.array_equal(both.image(run=1, row=row["row"]), made)
        assert np.array_equal(both.image(run=1, row=row["row"], clean=1), clean)


@pytest.mark.parametrize("name", ["gaussian_noise", "gaussian_blur", "brightness"])
def test_an_image_has_the_pixels_that_were_recorded(both, vcr, name):
    for row in at_least_one(list(recorded(vcr, f"vcr-{name}", SHARP).values())[::30]):
        assert pixels_of(both.image(run=0, row=row["row"])) == row["pixels"]


def test_images_of_16_bits_in_a_tar_file_are_regenerated(run, tmp_path):
    deep = np.random.default_rng(0).integers(0, 4096, (4, 32, 32), dtype=np.uint16)
    with tarfile.open(tmp_path / "scans.tar", "w") as tar:
        for index, values in enumerate(deep):
            Image.fromarray(values).save(tmp_path / "scan.png")
            tar.add(tmp_path / "scan.png", f"{index % 2}/{index}.png")
    model, out = "small_models:pale_colors", tmp_path / "out"
    result = run("evaluate", model, "--images", tmp_path / "scans.tar", "--window", 0, 4095,
                 "--corruption", "gaussian_noise", "--n", 40, "--bins", 6, "--min-per-bin", 3,
                 "--n-bootstrap", 10, "--out", out)  # fmt: skip
    assert result.status == 0, result.err
    with serving(out) as client:
        rows = list(recorded(out, "vcr-gaussian_noise", model).values())
        for row in at_least_one(rows[::10]):
            assert pixels_of(client.image(run=0, row=row["row"])) == row["pixels"]


def test_images_that_others_corrupted_are_read_from_their_files(tmp_path):
    clean = save_images(tmp_path / "clean", each=2)
    root = publish(clean, tmp_path / "published", corruptions=("gaussian_noise",))
    evaluate(root, tmp_path / "run", "--clean", clean, "--humans", "none", models=(COLORS,))
    own = recorded(tmp_path / "run", "gaussian_noise", COLORS)
    with serving(tmp_path / "run") as client:
        for row in list(own.values())[::9]:
            file = root / "gaussian_noise" / f"{row['severity']:g}" / row["image"]
            assert np.array_equal(client.image(run=0, row=row["row"]), np.asarray(Image.open(file)))
        status, why = client.rejection("/image", run=0, row=row["row"], clean=1)
        assert status == 404 and "--clean" in why and "--images PATH" in why
    with serving(tmp_path / "run", images=clean) as client:
        there = np.asarray(Image.open(clean / row["image"]))
        assert np.array_equal(client.image(run=0, row=row["row"], clean=1), there)
    file.write_bytes((clean / row["image"]).read_bytes())
    with serving(tmp_path / "run") as client:
        assert "cannot be regenerated" in client.rejection("/image", run=0, row=row["row"])[1]


def test_images_of_arrays_are_read_from_them(tmp_path):
    root = arrays(tmp_path / "cifar", corruptions=("gaussian_noise",))
    clean = tmp_path / "clean.npy"
    evaluate(root, tmp_path / "run", "--clean", clean, "--humans", "none", models=(COLORS,))
    own = recorded(tmp_path / "run", "gaussian_noise", COLORS)
    array, before = np.load(root / "gaussian_noise.npy"), np.load(clean)
    with serving(tmp_path / "run", images=clean) as client:
        for row in list(own.values())[::7]:
            place = (int(row["severity"]) - 1) * len(before) + int(row["image"])
            assert np.array_equal(client.image(run=0, row=row["row"]), array[place])
            seen = client.image(run=0, row=row["row"], clean=1)
            assert np.array_equal(seen, before[int(row["image"])])


def test_without_clean_images_rows_go_by_severity(tmp_path):
    root = arrays(tmp_path / "cifar", corruptions=("gaussian_noise",))
    evaluate(root, tmp_path / "run", "--humans", "none", models=(COLORS,))
    own = recorded(tmp_path / "run", "gaussian_noise", COLORS)
    with serving(tmp_path / "run") as client:
        found = client.json("/api/rows", run=0, corruption="gaussian_noise", model=COLORS)
        assert found["delta_v"] == [None] * 40
        assert [own[row]["severity"] for row in found["rows"]] == sorted([1, 2, 3, 4, 5] * 8)
        assert set(found["same"]) == {-1} and set(found["correct"]) <= {0, 1}
        status, why = client.rejection("/image", run=0, row=found["rows"][0], clean=1)
        assert status == 404 and "no clean images" in why


# Photographs that are not what they were


@pytest.fixture
def small(tmp_path):
    """A run whose photographs may be changed, and a row of it."""
    photos = save_images(tmp_path / "photos", each=3)
    evaluate(photos, tmp_path / "run", "--n", 40, *SMALL, models=(COLORS,))
    row = next(iter(recorded(tmp_path / "run", "vcr-gaussian_noise", COLORS).values()))
    return tmp_path, row


def test_an_image_that_changed_is_not_shown(small):
    home, row = small
    path = home / "photos" / row["image"]
    Image.fromarray(255 - np.asarray(Image.open(path))).save(path)
    with serving(home / "run") as client:
        for clean in (0, 1):
            status, why = client.rejection("/image", run=0, row=row["row"], clean=clean)
            assert status == 404
            assert "has changed since the run" in why and row["image"] in why
            assert "--images PATH" in why


def test_images_that_moved_are_found_where_they_are_now(small):
    home, row = small
    shutil.move(home / "photos", home / "elsewhere")
    with serving(home / "run") as client:
        status, why = client.rejection("/image", run=0, row=row["row"])
        assert status == 404 and str(home / "photos") in why and "--images PATH" in why
    with serving(home / "run", images=home / "elsewhere") as client:
        assert pixels_of(client.image(run=0, row=row["row"])) == row["pixels"]


def test_an_image_that_is_missing_is_named(small):
    home, row = small
    (home / "photos" / row["image"]).unlink()
    with serving(home / "run") as client:
        status, why = client.rejection("/image", run=0, row=row["row"])
        assert status == 404 and row["image"] in why and "is missing" in why


def test_pixels_that_come_out_otherwise_are_not_shown(small):
    home, row = small
    path = home / "run" / "predictions" / "vcr-gaussian_noise.parquet"
    table = pq.read_table(path)
    other = pa.array([value ^ 1 for value in table["pixels"].to_pylist()], pa.uint64())
    pq.write_table(table.set_column(table.schema.get_field_index("pixels"), "pixels", other), path)
    with serving(home / "run") as client:
        status, why = client.rejection("/image", run=0, row=row["row"])
        assert status == 404 and "pixels that the models saw" in why


def test_a_run_without_its_predictions_says_so(small):
    home, _ = small
    shutil.rmtree(home / "run" / "predictions")
    with serving(home / "run") as client:
        status, why = client.rejection("/api/rows", run=0, corruption=NOISE, model=COLORS)
        assert status == 404 and "copy the whole folder of the run" in why
        assert client.rejection("/image", run=0, row=0) == (status, why)
        assert client.ask("/").status == 200


def test_outputs_that_a_card_names_in_another_order_are_called_and_judged_so(tmp_path):
    photos = save_images(tmp_path / "photos", each=3)
    card = tmp_path / "card.yaml"
    # the model's first output is what is blue, and the card calls it red
    card.write_text(f"model: {COLORS}\nclass_names: [red, grey, green, blue]\n")
    evaluate(photos, tmp_path / "run", "--n", 40, *SMALL, "--accept-labels", models=(card,))
    recorded = pq.read_table(tmp_path / "run" / "predictions" / "vcr-gaussian_noise.parquet")
    names = ("red", "grey", "green", "blue")
    with serving(tmp_path / "run") as client:
        for row in recorded.to_pylist()[:8]:
            found = client.json("/api/row", run=0, row=row["row"])
            said = names[row["prediction"]]
            assert found["predictions"][0]["prediction"] == said
            assert found["predictions"][0]["correct"] == (said == row["label"])


# What is refused


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/rows", 400, "run is missing"),
        ("/api/rows?run=x&corruption=a&model=b", 400, "whole number"),
        ("/api/rows?run=-1&corruption=a&model=b", 400, "whole number"),
        ("/api/rows?run=9&corruption=a&model=b", 404, "Run 9 does not exist"),
        ("/api/rows?run=0&corruption=vcr/gausian_noise&model=b", 404, "Did you mean"),
        (f"/api/rows?run=0&corruption={NOISE}&model=b", 404, "Unknown model"),
        (f"/api/rows?run=0&corruption={NOISE}&model={SHARP}&space=x", 404, "Unknown label space"),
        ("/api/row?run=0", 400, "row is missing"),
        ("/api/row?run=0&row=99999999", 404, "no row"),
        ("/api/row?run=0&row=1e3", 400, "whole number"),
        ("/api/row?run=0&row=" + "9" * 40, 400, "whole number"),
        ("/api/row?run=0&run=1&row=1", 400, "given twice"),
        ("/api/row?run=0&row=1&file=/etc/passwd", 400, "not known here"),
        ("/image?run=0&row=1&clean=yes", 400, "0 or 1"),
        ("/image?run=0&row=%ff", 400, "cannot be read"),
        ("/" + "&".join("x" * 20), 404, "Nothing exists at this address"),
        ("/api/runs/", 404, "Nothing exists at this address"),
    ],
)
def test_a_bad_request_gets_a_sentence(both, path, status, words):
    found, sentence = both.rejection(path)
    assert found == status and words in sentence


@pytest.mark.parametrize(
    "path",
    [
        *("/../pyproject.toml", "/templates/report.html", "/browser.css/../report.css"),
        *("/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/./browser.js"),
        *("/predictions/clean.parquet", "/results.json"),
    ],
)
def test_no_address_leads_to_a_file_of_the_machine(both, path):
    reply = both.ask(path)
    assert reply.status == 404 and "error" in json.loads(reply.body)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", ""])
def test_another_name_for_this_machine_is_rejected(both, host):
    reply = both.ask("/api/runs", Host=host.format(port=both.port))
    assert reply.status == 403 and "responds to http://127.0.0.1" in json.loads(reply.body)["error"]
    assert both.ask("/api/runs", Host=f"localhost:{both.port}").status == 200


def test_nothing_but_get_and_head_is_answered(both):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        reply = both.ask("/api/runs", method)
        assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")
    reply, whole = both.ask("/api/runs", "HEAD"), both.ask("/api/runs")
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["Content-Length"] == str(len(whole.body))


def test_pages_may_run_and_fetch_nothing_from_elsewhere(both):
    for path in ("/", "/images", "/api/runs", "/nowhere"):
        headers = both.ask(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers
    policy = both.ask("/images").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert "unsafe" not in policy and "http" not in policy


def test_the_report_itself_is_at_the_root(both):
    reply = both.ask("/")
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/html; charset=utf-8"
    text = reply.body.decode()
    assert text.lstrip().lower().startswith("<!doctype html>") and 'href="/images"' in text


# How it begins and ends


def test_it_listens_on_this_machine_only(vcr):
    with make_server(load_report([vcr])) as server:
        assert server.socket.getsockname() == ("127.0.0.1", server.server_port)


def test_a_port_that_is_taken_is_said_in_a_sentence(vcr):
    report = load_report([vcr])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}.*give another --port"):
            make_server(report, port)
    for port in (-1, 70_000):
        with pytest.raises(UsageError, match="from 0 to 65535"):
            serve_report(report, port)
    with pytest.raises(UsageError, match="No such file or folder"):
        serve_report(report, images=Path("/nowhere/at/all"))


SERVE = """
import sys
from pathlib import Path
from eyechart.reports.series.report import load_report
from eyechart.reports.browse.server import serve_report
serve_report(load_report([Path(sys.argv[1])]), ready=lambda url: print(url, flush=True))
print("ended", flush=True)
"""


def test_an_interrupt_ends_it_and_frees_the_port(vcr):
    report, urls = load_report([vcr]), []

    def ready(url):
        urls.append(url)
        threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        serve_report(report, ready=ready)
    finally:
        signal.signal(signal.SIGINT, before)
    port = int(urls[0].rstrip("/").rpartition(":")[2])
    with make_server(report, port) as server:
        assert server.server_port == port


@pytest.mark.slow
def test_ctrl_c_ends_the_process_also_while_a_browser_is_there(vcr):
    started = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(vcr)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    url = started.stdout.readline().strip()
    port = int(url.rstrip("/").rpartition(":")[2])
    # a browser that keeps its connection open does not keep the server from ending
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    kept.request("GET", "/api/runs")
    assert kept.getresponse().read()
    started.send_signal(signal.SIGINT)
    said, complaint = started.communicate(timeout=20)
    kept.close()
    assert (started.returncode, said, complaint) == (0, "ended\n", "")
    with make_server(load_report([vcr]), port) as server:
        assert server.server_port == port


# Many rows


def many(run, out, n_rows=50_000):
    """A copy of a run with so many rows of one corruption, each by three models."""
    shutil.copytree(run, out)
    path = out / "predictions" / "vcr-gaussian_noise.parquet"
    table = pq.read_table(path)
    rows = table["row"].to_numpy()
    copies = [
        table.set_column(0, "row", pa.array(rows + 10_000_000 * place))
        for place in range(-(-n_rows // len(np.unique(rows))))
    ]
    pq.write_table(pa.concat_tables(copies), path, compression="zstd")
    return out


def test_fifty_thousand_rows_come_within_two_seconds(vcr, tmp_path):
    few = recorded(vcr, "vcr-gaussian_noise", SHARP).values()
    right = [wordnet_ids()[row["prediction"]] == row["label"] for row in few]
    asked = {"run": 0, "corruption": NOISE, "model": SHARP}
    with serving(many(vcr, tmp_path / "many")) as client:
        # of this process, so that others on the machine do not count
        begin = time.process_time()
        found = client.json("/api/rows", **asked)
        assert time.process_time() - begin < 2
        assert len(found["rows"]) >= 50_000 and found["delta_v"] == sorted(found["delta_v"])
        assert np.mean(found["correct"]) == pytest.approx(np.mean(right))
        client.json("/api/row", run=0, row=found["rows"][0], space="entry16")
        begin = time.process_time()
        for row in found["rows"][::5_000]:
            assert client.json("/api/row", run=0, row=row, space="entry16")["row"] == row
        # dragging: what was read stays in memory
        assert time.process_time() - begin < 1


# In a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


class Page:
    """The picture browser in a tab; what goes wrong in it is kept."""

    def __init__(self, tab, client):
        self.tab, self.client, self.problems = tab, client, []
        tab.on("console", lambda said: self.problems.append(said.text))
        tab.on("pageerror", lambda error: self.problems.append(str(error)))
        tab.on("request", self._note)
        tab.goto(f"http://127.0.0.1:{client.port}/images")

    def _note(self, request):
        if not request.url.startswith((f"http://127.0.0.1:{self.client.port}/", "blob:", "data:")):
            self.problems.append(request.url)

    def row(self):
        """Wait until all of one row is there, and return its number."""
        self.tab.wait_for_function(
            """() => {
              const row = (document.getElementById("seen").dataset.shows || " ").split(" ")[1];
              const told = [...document.querySelectorAll("#facts dd")].at(-1);
              return row && told?.textContent === row && !document.querySelector("img.old");
            }"""
        )
        return int(self.tab.locator("#facts dd").last.inner_text())

    def model(self):
        """The model that is chosen, once the page has its rows."""
        self.row()
        return self.tab.locator("#model").input_value()

    def shown(self, which="seen"):
        """The pixels of a picture as the browser has them."""
        image = self.tab.evaluate(
            """async (id) => {
              const image = document.getElementById(id), canvas = document.createElement("canvas");
              [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
              const context = canvas.getContext("2d");
              context.drawImage(image, 0, 0);
              const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
              return [canvas.height, canvas.width, [...data]];
            }""",
            which,
        )
        return np.array(image[2], dtype=np.uint8).reshape(*image[:2], 4)[..., :3]


@pytest.fixture
def open_page(chromium):
    tabs = []

    def call(client, **options):
        tabs.append(chromium.new_page(**options))
        return Page(tabs[-1], client)

    yield call
    for tab in tabs:
        tab.close()


def test_keys_and_dragging_move_the_image_along_delta_v(open_page, both):
    page = open_page(both, viewport={"width": 1440, "height": 900})
    slider, model = page.tab.locator("#slider"), page.model()
    rows = both.json("/api/rows", run=0, corruption=NOISE, model=model)["rows"]
    assert page.row() == rows[0]
    assert np.array_equal(page.shown(), both.image(run=0, row=rows[0]))
    slider.press("ArrowRight")
    assert page.row() == rows[1]
    slider.press("End")
    assert page.row() == rows[-1]
    assert np.array_equal(page.shown(), both.image(run=0, row=rows[-1]))
    assert np.array_equal(page.shown("clean"), both.image(run=0, row=rows[-1], clean=1))
    box = slider.bounding_box()
    page.tab.mouse.move(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=12)
    page.tab.mouse.up()
    row = page.row()
    change = both.json("/api/row", run=0, row=row)["delta_v"]
    others = both.json("/api/rows", run=0, corruption=NOISE, model=model)["delta_v"]
    nearest = min(abs(other - 0.5) for other in others)
    assert abs(change - 0.5) <= nearest + 0.02
    assert np.array_equal(page.shown(), both.image(run=0, row=row))
    assert f"Δv {change:.3f}" in slider.get_attribute("aria-valuetext")
    assert page.problems == []


def test_next_failure_goes_to_the_next_wrong_prediction(open_page, both):
    found = both.json("/api/rows", run=0, corruption=NOISE, model=SHARP)
    wrong = [row for row, right in zip(found["rows"], found["correct"], strict=True) if not right]
    first, last = found["rows"][0], found["rows"][-1]
    assert first not in wrong and len(wrong) > 4
    page = open_page(both, viewport={"width": 390, "height": 844})
    after, before = page.tab.locator("#next-failure"), page.tab.locator("#before-failure")
    page.row()
    page.tab.select_option("#model", SHARP)
    page.tab.wait_for_function("() => location.hash.includes('sharp')")
    page.tab.locator("#slider").press("Home")
    for row in wrong[:3]:
        after.click()
        assert page.row() == row
        assert "incorrect" in page.tab.locator("[aria-current]").inner_text()
    before.click()
    assert page.row() == wrong[1]
    page.tab.locator("#slider").press("End")
    assert after.is_disabled()
    before.click()
    assert page.row() == [row for row in wrong if row != last][-1]
    # there is none under brightness
    page.tab.select_option("#corruption", "vcr/brightness")
    page.tab.wait_for_function("() => location.hash.includes('brightness')")
    assert after.is_disabled() and before.is_disabled()
    assert page.tab.evaluate("document.documentElement.scrollWidth") == 390
    assert page.problems == []


def test_staying_on_an_image_shows_only_its_rows(open_page, both, vcr):
    page = open_page(both)
    model = page.model()
    own = recorded(vcr, "vcr-gaussian_noise", model)
    name = own[page.row()]["image"]
    page.tab.check("#stay")
    same = sorted((row["delta_v"], number) for number, row in own.items() if row["image"] == name)
    assert f"of {len(same)}" in page.tab.locator("#where").inner_text()
    page.tab.locator("#slider").press("End")
    assert page.row() == same[-1][1]
    page.tab.select_option("#corruption", "vcr/gaussian_blur")
    page.tab.wait_for_function("() => location.hash.includes('gaussian_blur')")
    assert recorded(vcr, "vcr-gaussian_blur", model)[page.row()]["image"] == name


def test_an_address_leads_to_the_row_it_names(open_page, both):
    rows = both.json("/api/rows", run=1, corruption="brightness", model=BLIND)["rows"]
    page = open_page(both)
    page.row()
    asked = {"test": 1, "corruption": "brightness", "model": BLIND, "row": rows[33]}
    page.tab.goto(f"http://127.0.0.1:{both.port}/images#{urlencode(asked)}")
    page.tab.wait_for_function("() => document.getElementById('test').value === '1'")
    shown = f"document.getElementById('seen').dataset.shows === '1 {rows[33]}'"
    page.tab.wait_for_function(f"() => {shown}")
    assert page.row() == rows[33]


def test_an_image_that_cannot_be_made_is_replaced_by_the_reason(open_page, small):
    home, _ = small
    shutil.move(home / "photos", home / "elsewhere")
    with serving(home / "run") as client:
        page = open_page(client)
        page.tab.wait_for_selector("#seen-problem:not([hidden])")
        assert "--images PATH" in page.tab.locator("#seen-problem").inner_text()
        assert not page.tab.locator("#seen").is_visible()
        # The table comes with a request of its own, which may end after the picture's.
        page.tab.wait_for_selector("#predictions tr")
        assert page.tab.locator("#predictions tr").count() == 1


def test_names_that_are_html_stay_text(open_page, tmp_path_factory):
    with serving(make_once(tmp_path_factory, hostile_run)) as client:
        page = open_page(client)
        page.row()
        page.tab.locator("#slider").press("End")
        page.row()
        assert HOSTILE in page.tab.locator("#model").inner_text()
        assert HOSTILE in page.tab.locator("#predictions").inner_text()
        assert page.tab.evaluate("window.hacked") is None
        assert page.tab.locator("main img").count() == 2
        assert page.problems == []


def test_the_theme_can_be_chosen_and_is_kept(open_page, both):
    page = open_page(both, color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.tab.evaluate(paper)
    page.tab.locator("#theme").click()
    dark = page.tab.evaluate(paper)
    assert dark != light
    page.tab.reload()
    page.row()
    assert page.tab.evaluate(paper) == dark
