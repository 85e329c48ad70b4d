"""What a user types from the documentation, one command after the other, in one folder.

Commands are taken from the pages, with small inputs under the names that the pages use. Blocks of
`bash` are run page by page in `test_docs.py`; these are the others, which need the user's own
models and images.
"""

import csv
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from eyechart.images.labels.imagenet import wordnet_ids
from places import EXPERIMENT, ROOT
from small_models import TINTS, save_images
from tiny_networks import write_script
from toy_models import DEMO_BLOCKS

SMALL = ("--n", "20", "--max-images", "12", "--n-bootstrap", "10", "--stimulus", "64")
TWO = ("--corruption", "gaussian_noise", "--corruption", "brightness")
LEVELS = ("--suite", "imagenet-c", *TWO)
SHARD = "eyechart evaluate resnet50.pt --images val --n 2000 --out results --shard "
STUDY = ("--practice", "2", "--qualification", "2", "--catch", "2", "--trials", "12")
TRAINED = ("--epochs", "1", "--batch-size", "8")


@dataclass(frozen=True)
class Step:
    """A command of a page: how it begins there, what makes it short, and what must be there then.

    `more` replaces options of the page that have the same name, `words` single words.
    """

    page: str
    start: str
    more: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    status: int = 0
    words: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Return the arguments of the command, as the page gives them but for sizes and devices."""
        (typed, *_) = [line for line in commands_of(self.page) if line.startswith(self.start)]
        given = [self.words.get(word, OTHER_WORDS.get(word, word)) for word in typed.split()[1:]]
        words = shlex.split(" ".join(given))
        kept = [
            word
            for place, word in enumerate(words)
            if word not in self.more and (place == 0 or words[place - 1] not in self.more)
        ]
        return [*kept, *self.more]


def commands_of(page: str) -> list[str]:
    """Return the commands that a page shows, each in one line."""
    folders = (ROOT, EXPERIMENT / "docs")
    inside = [folder / page for folder in folders if (folder / page).is_file()]
    (path,) = (*inside, *(ROOT / "docs").rglob(page))
    text = path.read_text("utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```(?:text|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    shown = [re.split(r"\s+(?:#|;|&&)", line)[0] for line in lines]
    return [" ".join(line.split()) for line in shown if line.startswith("eyechart ")]


RUN = ("results.json", "results.csv", "scores.parquet", "curves.png")


def run_in(folder: str) -> tuple[str, ...]:
    """Return the files that evaluate.md promises in the folder of a run."""
    return tuple(f"{folder}/{name}" for name in RUN)


STEPS = (
    Step("README.md", "eyechart evaluate timm:resnet50", (*SMALL, *TWO), run_in("results")),
    Step("README.md", "eyechart report results", (), ("results/report.html",)),
    Step("report.md", "eyechart report results --figures", (), ("figures",)),
    Step("report.md", "eyechart report results --format md", (), ("results/report.md",)),
    Step("models.md", "eyechart models check 'mine:network()'"),
    Step("models.md", "eyechart evaluate 'mine:network()'", (*SMALL, *TWO, "--out", "own"),
         run_in("own")),
    Step("ci.md", "eyechart evaluate 'mine:network()' --images data.csv --n 2000 --check",
         (*SMALL, *TWO, "--out", "checked"), run_in("checked")),
    Step("gate.md", "eyechart evaluate old.pt", (*SMALL, *TWO), run_in("runs/old")),
    Step("gate.md", "eyechart evaluate new.pt", (*SMALL, *TWO), run_in("runs/new")),
    Step("ci.md", "eyechart gate", (), ("gate.xml", "gate.md"), status=1),
    Step("evaluate.md", "eyechart evaluate first.pt",
         (*SMALL, *TWO, "--max-images", "5"),
         run_in("both")),
    Step("ci.md", "eyechart compare results"),
    Step("performance.md", "eyechart evaluate resnet50.pt --images imagenet/val --preset vcr",
         (*SMALL, "--max-images", "5", "--n", "60", "--bins", "6", "--out", "preset"),
         run_in("preset")),
    Step("corruption_error.md", "eyechart evaluate resnet50.pt --images imagenet/val --preset"),
    Step("published_files.md", "eyechart corrupt val", ("--stimulus", "64"),
         ("ImageNet-C/gaussian_noise/5", "ImageNet-C/brightness/1")),
    Step("published_files.md", "eyechart evaluate timm:resnet50 --images ImageNet-C",
         ("--n-bootstrap", "10", "--stimulus", "64"), run_in("files")),
    Step("scale.md", SHARD + "1/2",
         (*SMALL, *TWO, "--out", "split"), ("split/shards/1-of-2",)),
    Step("scale.md", SHARD + "2/2",
         (*SMALL, *TWO, "--out", "split"), ("split/shards/2-of-2",)),
    Step("scale.md", "eyechart merge results", (), run_in("split"), words={"results": "split"}),
    Step("cifar.md", "eyechart corrupt cifar/test", (),
         ("CIFAR-10-C/gaussian_noise.npy", "CIFAR-10-C/labels.npy")),
    Step("humans.md", "eyechart humans import trials.csv", (), ("humans.parquet",)),
    Step("humans.md", "eyechart humans plot humans.parquet", (), ("humans.png",)),
    Step("experiment.md", "eyechart testset make", ("--n", "30"), ("blur.parquet",)),
    Step("experiment.md", "eyechart experiment new", STUDY, ("blur-study",)),
    Step("experiment.md", "eyechart experiment preregister", (), ()),
    Step("overlap.md", "eyechart overlap run --images cifar10", (*TRAINED, *LEVELS),
         ("study/accuracies.csv", "study/overlap.csv")),
    Step("overlap.md", "eyechart overlap coverage published"),
    Step("train.md", "eyechart train network resnet18", (*TRAINED,), ("standard.pt",)),
    Step("structure.md", "eyechart structure style", TRAINED, ("style/results.json",)),
    Step("structure.md", "eyechart structure report style", (), ("style/structure.html",)),
)  # fmt: skip

OTHER_WORDS = {"timm:resnet50": "resnet50.pt", "cuda": "cpu", "resnet18": "resnet9"}
"""What a machine without these has instead."""


class Nearest(nn.Module):
    """Knows the demo images by the mean colors of their blocks."""

    def __init__(self, sharpness: float) -> None:
        super().__init__()
        levels = torch.tensor([[int(digit, 16) / 15 for digit in own] for _, own in DEMO_BLOCKS])
        labels = [label for label, _ in DEMO_BLOCKS]
        weight, bias = torch.zeros(1000, 48), torch.full((1000,), -100.0)
        weight[labels], bias[labels] = 2 * sharpness * levels, -sharpness * levels.square().sum(1)
        self.last = nn.Linear(48, 1000)
        self.last.load_state_dict({"weight": weight, "bias": bias})

    def forward(self, images: Tensor) -> Tensor:
        return self.last(nn.functional.adaptive_avg_pool2d(images, 4).flatten(1))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the models and data that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    Path("mine.py").write_text("from toy_models import fine\n\n\ndef network():\n    return fine\n")
    for number, name in enumerate(("resnet50.pt", "old.pt", "new.pt", "first.pt")):
        write_script(Path(name), Nearest(30 + number))
    batch = torch.export.Dim("batch")
    exported = torch.export.export(
        Nearest(20), (torch.rand(2, 3, 64, 64),), dynamic_shapes={"images": {0: batch}}
    )
    torch.export.save(exported, "second.pt2")
    rows = write_demo_images(Path("val"))
    shutil.copytree("val", "imagenet/val")
    for name in ("data.csv", "list.csv"):
        write_table(Path(name), ("path", "label"), rows)
    photos = save_images(Path("photos"), each=9)
    for tint, label in zip(sorted(TINTS), (404, 207, 285, 436), strict=True):
        (photos / tint).rename(photos / wordnet_ids()[label])
    rows = [(path, path.parent.name) for path in sorted(photos.rglob("*.png"))]
    write_table(Path("photos.csv"), ("path", "label"), rows)
    save_images(Path("cifar10/train"), each=8, side=32)
    for path in sorted(Path("cifar10/train").glob("*/[4-7].png")):
        for test in (Path("cifar10/test"), Path("cifar/test")):
            (test / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, test / path.parent.name)
        path.unlink()
    tints = save_images(Path("icons/images"), each=6, side=32, tints=("blue", "green", "red"))
    icons = [
        (path, path.parent.name, style, f"{path.parent.name} {path.stem}")
        for path in sorted(tints.rglob("*.png"))
        for style in ("flat", "round")[int(path.stem) % 2 :][:1]
    ]
    write_table(Path("icons/icons.csv"), ("path", "label", "style", "subclass"), icons)
    Path("gate.yaml").write_text("rules: [{name: floor, corruptions: all, at_least: 0.99}]\n")
    (table,) = re.findall(r'"trials.csv"\)\.write_text\("""\\\n(.*?)"""', humans_page(), re.DOTALL)
    Path("trials.csv").write_text(table)
    return tmp_path


def humans_page() -> str:
    return (ROOT / "docs" / "concepts" / "humans.md").read_text("utf-8")


def write_demo_images(home: Path) -> list[tuple[Path, str]]:
    """Copy the demo images into folders of their classes; return each file with its class."""
    rows = []
    for path in sorted((Path(foolbox_folder()) / "data").glob("imagenet_*.jpg")):
        label = wordnet_ids()[int(path.stem.rpartition("_")[2])]
        target = home / label / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).convert("RGB").resize((96, 96)).save(target.with_suffix(".png"))
        rows.append((target.with_suffix(".png"), label))
    return rows


def foolbox_folder() -> str:
    spec = find_spec("foolbox")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent)


def write_table(path: Path, head: tuple[str, ...], rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *([Path(row[0]).resolve(), *row[1:]] for row in rows)])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_commands_of_the_documentation_do_what_their_pages_promise(folder, run):
    assert len(STEPS) >= 25
    failures = []
    for step in STEPS:
        arguments = step.arguments()
        result = run(*arguments)
        missing = [name for name in step.files if not (folder / name).exists()]
        if result.status != step.status or missing:
            said = result.err.strip().splitlines()[-1:]
            failures.append(f"{' '.join(arguments)}: {result.status}, missing {missing}: {said}")
    assert not failures, "\n".join(failures)
