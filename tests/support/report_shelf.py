"""Where in the results of a report stands what its page's labels name, found by no code of ours."""

from report_pages import at, files_of

SCORES = {
    "Clean accuracy": "clean_accuracy", "Error": "error", "mCE": "mce",
    "Relative mCE": "relative_mce", "Rₐ": "r_a", "Rₚ": "r_p", "HMRIₐ": "hmri_a", "MRSIₐ": "mrsi_a",
    "HMRIₚ": "hmri_p", "MRSIₚ": "mrsi_p", "Top-5 accuracy": "top5_accuracy", "ECE": "ece",
}  # fmt: skip
UNDER = {
    "Error": "error", "Rₐ": "accuracy/robustness", "Rₚ": "consistency/robustness",
    "HMRIₐ": "accuracy/humans/hmri", "MRSIₐ": "accuracy/humans/mrsi",
    "HMRIₚ": "consistency/humans/hmri", "MRSIₚ": "consistency/humans/mrsi",
    "Top-5 accuracy": "computed_scores/top5_accuracy", "ECE": "computed_scores/ece",
    "Δv₅₀": "accuracy/break_point", "Δv₅₀ₚ": "consistency/break_point",
}  # fmt: skip
"""Where a score under one corruption stands."""

BOUNDS = {
    "Rₐ": "accuracy/bounds", "Rₚ": "consistency/bounds",
    "HMRIₐ": "accuracy/humans/hmri_bounds", "HMRIₚ": "consistency/humans/hmri_bounds",
}  # fmt: skip
SPACES = {"the models’ native classes": "native", "the 16 human categories": "entry16"}
SUITES = {"vcr": "VCR-Bench", "imagenet-c": "ImageNet-C"}
DASH = "–"


def called(corruption):
    """What a corruption is called, in small letters."""
    return corruption.rsplit("/", 1)[-1].replace("_", " ").lower()


class Shelf:
    """Where in the files of a report stands what the page's labels name."""

    def __init__(self, report):
        self.files = files_of(report)
        self.names = {own.short: own.name for own in report.models}
        assert len(self.names) == len(report.models)
        suites = list(dict.fromkeys(file["config"]["suite"] for file in self.files))
        self.parts = [
            [place for place, file in enumerate(self.files) if file["config"]["suite"] == suite]
            for suite in suites
        ]
        self.suites = {
            SUITES.get(suite, suite.rsplit("/", 1)[-1]): place for place, suite in enumerate(suites)
        }

    def model(self, part, name):
        """The place of a model: of the first run of the part that has it."""
        for run in self.parts[part]:
            for place, own in enumerate(self.files[run]["models"]):
                if own["name"] == name:
                    return f"{run}/models/{place}"
        raise AssertionError(name)

    def space(self, part, name, space):
        return f"{self.model(part, name)}/spaces/{space}"

    def corruption(self, part, title):
        """The name of a corruption in the part's file, as it stands in a place."""
        names = self.files[self.parts[part][0]]["config"]["corruptions"]
        (found,) = [name for name in names if called(name) == title.lower()]
        return found.replace("/", "~1")

    def get(self, place):
        """What stands at a place, None if there is no such place."""
        try:
            return at(self.files, place)
        except (KeyError, TypeError, IndexError):
            return None

    def values(self, *places):
        """What stands at the places at which there is something."""
        return [self.get(place) for place in self.there(*places)]

    def there(self, *places):
        """The places at which there is something."""
        return [place for place in places if self.get(place) is not None]

    def estimate(self, place):
        """The places of a score and of the ends of its interval, as far as there are any."""
        if self.get(f"{place}/value") is None:
            # a break point that was not reached is above its limit
            return self.there(f"{place}/limit")
        return [
            f"{place}/value", *self.there(f"{place}/interval95/0", f"{place}/interval95/1")
        ]  # fmt: skip

    def overall(self, part, name, space, score):
        """The place of an overall score of a model; people's are in their own label space."""
        folder = {"clean_accuracy": "", "mce": "/corruption_error", "relative_mce":
                  "/corruption_error"}.get(score, "/means")  # fmt: skip
        spaces = (space, "entry16") if score.startswith(("hmri", "mrsi")) else (space,)
        places = [f"{self.space(part, name, own)}{folder}/{score}" for own in spaces]
        return self.there(*places)[0]
