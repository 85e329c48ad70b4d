"""The values that a chart's trace must show, looked up in results.json by what the chart names."""

from report_shelf import UNDER, called

PROPERTIES = {"a": "accuracy", "p": "consistency"}


def wanted_values(shelf, chart, trace):
    """Return the values of the results that a trace shows; None for one that is compared.

    Args:
        shelf: The results of the report's runs.
        chart: The chart.
        trace: One of the traces of its spec.
    """
    return KINDS.get(chart.kind, no_results)(shelf, chart, trace)


def shown_values(chart, trace):
    """Return the values that a trace draws."""
    if "same" in trace["meta"]:
        trace = {**trace, "y": chart.spec["data"][trace["meta"]["same"]]["y"]}
    return trace["x" if chart.kind in ("human-index", "main-score", "coverage") else "y"]


def no_results(shelf, chart, trace):
    return None


def under(shelf, chart, model, corruption=""):
    name = (corruption or chart.corruption).replace("/", "~1")
    return f"{shelf.space(chart.section, model, chart.space)}/corruptions/{name}"


def models_of(shelf, part):
    return [model["name"] for run in shelf.parts[part] for model in shelf.files[run]["models"]]


def curves(shelf, chart, trace):
    letter = PROPERTIES[chart.property]
    if trace["type"] == "bar":
        first = next(own for own in chart.spec["data"] if "observed" in own["meta"])
        place = under(shelf, chart, first["meta"]["model"])
        return shelf.get(f"{place}/{letter}/curve/bin_counts")
    if trace["meta"]["model"] != "humans":
        place = under(shelf, chart, trace["meta"]["model"])
        return shelf.get(f"{place}/{letter}/curve/values")
    places = [under(shelf, chart, model) for model in models_of(shelf, chart.section)]
    lines = [shelf.get(f"{place}/{letter}/humans/line/values") for place in places]
    return next(line for line in lines if line is not None)


def areas(shelf, chart, trace):
    if trace.get("hoverinfo") == "name":
        return None
    letter, meta = PROPERTIES[chart.property], trace["meta"]
    place = under(shelf, chart, meta.get("with", meta["model"]))
    line = "line" if meta["model"] == "humans" else "model_line"
    return shelf.get(f"{place}/{letter}/humans/{line}/values")


def human_index(shelf, chart, trace):
    name, model = "mrsi" if trace.get("xaxis") == "x2" else "hmri", trace["meta"]["model"]
    if chart.corruption:
        letter = PROPERTIES[chart.property]
        return [shelf.get(f"{under(shelf, chart, model)}/{letter}/humans/{name}/value")]
    home = shelf.space(chart.section, model, chart.space)
    return [shelf.get(f"{home}/means/{name}_{chart.property}/value")]


def main_score(shelf, chart, trace):
    model = trace["meta"]["model"]
    names = {
        called(name): name
        for name in shelf.files[shelf.parts[chart.section][0]]["config"]["corruptions"]
    }
    corruptions = [names[title.lower()] for title in trace["y"]]
    if model == "humans":
        record = "accuracy/humans/areas/human"
        found = [
            next(
                value
                for own in models_of(shelf, chart.section)
                if (value := shelf.get(f"{under(shelf, chart, own, name)}/{record}")) is not None
            )
            for name in corruptions
        ]
        return found
    home = shelf.space(chart.section, model, chart.space)
    title = chart.title.partition(" by corruption")[0]
    if title in ("CE", "Relative CE"):
        score = title.lower().replace(" ", "_")
        errors = shelf.get(f"{home}/corruption_error/{score}")
        return [errors[name]["value"] for name in corruptions]
    places = (under(shelf, chart, model, name) for name in corruptions)
    return [shelf.get(f"{place}/{UNDER[title]}/value") for place in places]


def mean_errors(shelf, chart, trace):
    home = shelf.space(chart.section, trace["meta"]["model"], chart.space)
    title = chart.spec["layout"][f"yaxis{trace['yaxis'][1:]}"]["title"]["text"]
    name = "relative_mce" if title.startswith("relative") else "mce"
    return [shelf.get(f"{home}/corruption_error/{name}/value")]


def severities(shelf, chart, trace):
    errors = shelf.get(f"{under(shelf, chart, trace['meta']['model'])}/error_by_severity")
    return [errors[level] for level in sorted(errors, key=float)]


def coverage_of(shelf, trace, title):
    """Return what a test set covers under a corruption."""
    run = shelf.parts[shelf.suites[trace["name"]]][0]
    coverage = shelf.files[run]["coverage"]
    (found,) = [own for name, own in coverage.items() if called(name) == title.lower()]
    return found


def coverage(shelf, chart, trace):
    return [coverage_of(shelf, trace, title)["paper"] for title in trace["y"]]


def histogram(shelf, chart, trace):
    own = coverage_of(shelf, trace, called(chart.corruption))
    return [100 * count / own["rows"] for count in own["histogram"]]


def humans(shelf, chart, trace):
    experiments = [own for file in shelf.files for own in file["humans"]]
    own = next(own for own in experiments if own["name"] == trace["legendgroup"])
    curve = own[PROPERTIES[chart.property]]
    if trace["mode"] == "markers":
        return [point["rate"] for point in curve["points"]]
    return curve["line"]["values"]


KINDS = {
    "curves": curves, "areas": areas, "human-index": human_index, "main-score": main_score,
    "mce": mean_errors, "severity": severities, "histogram": histogram, "coverage": coverage,
    "humans": humans,
}  # fmt: skip
