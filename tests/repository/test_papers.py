"""docs/research/papers.md lists every figure and table of the papers, with a command or a reason.

Its commands run here as they are printed, with small models and images, and options that shorten
them.
"""

import re
import shlex

import numpy as np
import pytest
from PIL import Image

from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.corruptions.suites.published import TESTS
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.structure.held_out_names import published_names
from eyechart.structure.superclasses import PUBLISHED
from places import ROOT

PAGE = (ROOT / "docs" / "research" / "papers.md").read_text("utf-8")

LAST = {
    "VCR-Bench": {"Fig.": 33, "Table": 3, "Fig. of 2023": 5, "Table of 2023": 1},
    "ImageNet-C and ICONS-50": {"Fig.": 8, "Table": 2},
    "ImageNet-NOC": {"Fig.": 8, "Table": 8},
}
"""The last numbers, counted in the papers; "of 2023" is the earlier version of VCR-Bench."""

NUMBERS = re.compile(r"\b(Fig|Table)s?\.? (\d+(?:[–, ]+\d+)*)")
OLD = " of 2023"
NOTHING = "–"


def rows_of(section):
    """Return the cells of each row below a heading, without the head of the table."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def listed(names):
    """Return what a first cell lists: ("Fig.", 4) of "Fig. 4", ("Fig. of 2023", 1), …"""
    found = []
    for part in names.split(";"):
        for kind, numbers in NUMBERS.findall(part):
            title = ("Fig." if kind == "Fig" else kind) + (OLD if OLD in part else "")
            for item in re.split(r", *", numbers):
                low, *high = map(int, item.split("–"))
                found += [(title, number) for number in range(low, (high or [low])[0] + 1)]
    return found


def test_numbers_are_read_with_their_ranges():
    assert listed("Fig. 5, Figs 13–15; Figs 3, 4 of 2023") == [
        ("Fig.", 5), ("Fig.", 13), ("Fig.", 14), ("Fig.", 15),
        ("Fig. of 2023", 3), ("Fig. of 2023", 4),
    ]  # fmt: skip
    assert listed("Table 2, Tables 7, 8") == [("Table", 2), ("Table", 7), ("Table", 8)]


def test_the_page_has_every_paper():
    assert set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE)) == {"Presets", *LAST, "Citations"}


@pytest.mark.parametrize("section", LAST)
def test_every_figure_and_table_is_listed_once(section):
    found = [name for row in rows_of(section) for name in listed(row[0])]
    wanted = [(kind, n) for kind, last in LAST[section].items() for n in range(1, last + 1)]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("section", LAST)
def test_every_row_has_a_command_or_says_why_not(section):
    for row in rows_of(section):
        assert len(row) == 4, row
        _, shows, here, differs = row
        assert shows
        is_made = "`eyechart " in here or "above" in here or files_in(here)
        assert is_made or differs not in ("", NOTHING), row
        # what is no command is a page that explains it
        assert is_made or re.fullmatch(r"\[[^\]]+\]\(\S+\.md\S*\)", here), row


def files_in(cell):
    """Return the files and folders that a cell names, which commands write."""
    names = re.findall(r"`([^`]+)`", cell)
    return [name for name in names if re.search(r"^figures-|\.(tex|svg|pdf|html)$", name)
            and " " not in name]  # fmt: skip


# ---- the commands


MODELS = {
    "timm:resnet50": "tinted_contrasts:untrained_thousand",
    "timm:vit_small_patch16_224": "small_models:thousand",
    "timm:densenet161": "small_models:thousand",
    "torchvision:densenet121": "textures:network",
}
FEW = "--n-bootstrap 10 --stimulus native"
TWO = "--corruption noc/hue --corruption brightness"
TRAINING = "--epochs 1 --batch-size 8"
SMALL = {
    # as many images as a claim needs: with fewer, areas are not drawn
    "evaluate": f"--n 48 --min-per-bin 2 --max-images 45 --accept-labels {FEW}",
    "testset make": "--n 20 --stimulus native",
    "train retrain": f"--n 20 --min-per-bin 2 {TRAINING} {FEW}",
    # the published table is not valid for a few small images
    "train enhancements": "--baseline standard --corruption brightness --tuning-epochs 1"
    f" --batch-size 8 {FEW}",
    "overlap run": f"--every 1 --stimulus 24x24 --arch textures:network {TRAINING}",
    "overlap select": "",
    "overlap plot": "",
    "structure style": f"--arch textures:network {TRAINING}",
    "structure subclass": f"--arch textures:network {TRAINING}",
    "structure superclass": f"{TRAINING} --stimulus native"
    " --imagenet-accuracy tinted_contrasts:untrained_thousand=0.75",
}
"""Options that shorten a command."""

CATEGORIES = [281, 207, 294, 404, 444, 409, 386, 817]
"""Classes of ImageNet in eight of the 16 categories, from cat and dog to car."""
SEEN = {"n01514668": "bird", "n01518878": "bird", "n02085620": "dog", "n02085782": "dog"}
UNSEEN = {"n90000001": "bird", "n90000002": "dog"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The files that the page's commands read, all of them small."""
    folder = tmp_path_factory.mktemp("papers")
    numbers = np.random.default_rng(0)

    def paint(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numbers.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(path)

    for number in range(5):
        for synset in (*SEEN, *UNSEEN):
            paint(folder / "imagenet22k" / synset / f"{number}.png")
        for synset in (*SEEN, *(wordnet_ids()[place] for place in CATEGORIES)):
            paint(folder / "imagenet" / "train" / synset / f"train-{number}.png")
            paint(folder / "imagenet" / "val" / synset / f"val-{number}.png")
    above = {own.name: own.wnid for own in PUBLISHED}
    pairs = [("n00001740", own.wnid) for own in PUBLISHED]
    pairs += [(above[name], synset) for synset, name in {**SEEN, **UNSEEN}.items()]
    (folder / "wordnet.is_a.txt").write_text("".join(f"{a} {b}\n" for a, b in pairs))
    subclasses = [*published_names(), *(f"other_{number}" for number in range(6))]
    for number, subclass in enumerate(subclasses):
        for style in ("apple", "google"):
            label = ("bird", "books", "plane")[number % 3]
            paint(folder / "ICONS-50" / label / f"{style}_1_{subclass}.png")
    names = [name for suite in ("imagenet-c", "imagenet-c-extra", "imagenet-noc")
             for name in list_corruptions(suite)]  # fmt: skip
    rows = ["corruption,error", "clean,0.1", *(f"{name},0.6" for name in names)]
    (folder / "errors.csv").write_text("\n".join(rows))
    paint(folder / "photo.jpg")
    return folder


def commands_of(section):
    """Return the commands of a section: of its block, then those named in its table."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```text\n(.*?)^```", text, re.M | re.S)
    return [*block.splitlines(), *dict.fromkeys(re.findall(r"`(eyechart [^`]+)`", text))]


def shortened(line):
    """Return the words of a command with small models, and options that shorten it."""
    words = [MODELS.get(word, word) for word in shlex.split(line)[1:]]
    for name, options in SMALL.items():
        if words[: len(name.split())] == name.split():
            words += shlex.split(options)
    if words[0] == "evaluate" and "vcr" not in words:
        # as the first line of a run says where no published table is valid
        words += ["--baseline", "errors.csv"]
    if words[:2] == ["overlap", "run"] and "noc-densenet121" in words:
        words += shlex.split(TWO)
    return words


@pytest.mark.slow
@pytest.mark.parametrize("section", LAST)
def test_every_command_of_the_page_runs_and_writes_the_files_that_it_names(
    section, run, home, monkeypatch
):
    monkeypatch.chdir(home)
    if section == "ImageNet-NOC" and not (home / "imagenet-c").exists():
        assert run(*shortened(commands_of("ImageNet-C and ICONS-50")[0])).status == 0
    for line in commands_of(section):
        if "icons build" in line:
            continue  # needs packages of icons; tests/structure runs it
        told = run(*shortened(line))
        assert told.status == 0, (line, told.err)
        said = told.out + told.err
        for preset in re.findall(r"--preset (\S+)", line):
            assert f"Preset {preset}: " in said, line
    for row in rows_of(section):
        for name in files_in(row[2]):
            assert list(home.glob(name)), name


def test_the_runs_of_vcr_have_one_label_space_and_all_nine_shared_corruptions():
    runs = [line for line in commands_of("VCR-Bench") if line.startswith("eyechart evaluate")]
    assert len(runs) == 3
    presets = [re.findall(r"--preset (\S+)", line)[0] for line in runs]
    spaces = {
        "entry16" if "--labels entry16" in line else TESTS[preset]["labels"][0]
        for line, preset in zip(runs, presets, strict=True)
    }
    assert spaces == {"entry16"}
    assert "imagenet-c-extra --corruption gaussian_blur" in runs[2]
