"""The packaged reference: Geirhos et al. 2018, whose counts are laid out over visual change."""

import numpy as np

from eyechart.core.csv_table import packaged_rows
from eyechart.humans.human_responses import CLEAN, HumanResponses, join_responses, make_responses
from eyechart.humans.placement import EXPERIMENTS, find_placement, strength_of

CITATION = (
    "Geirhos, Temme, Rauber, Schütt, Bethge, Wichmann (2018): Generalisation in humans and deep"
    " neural networks. NeurIPS."
)
GREY = "bw"
"""The condition of the experiment on colour with clean grey pictures."""


def geirhos_responses() -> HumanResponses:
    """Return the answers by subject and condition, spread evenly over the condition's Δv.

    Each has the subject's rate in that condition: which answers were right is not counted apart.
    The experiments' people are others each time. Clean grey pictures of the experiment on colour
    are there as `clean`.
    """
    parts = []
    for row in packaged_rows("eyechart.humans", "data", "geirhos2018_counts.csv"):
        experiment, condition = row["experiment"], row["condition"]
        trials = int(row["trials"])
        if experiment in EXPERIMENTS:
            placement = find_placement(experiment)
            delta_v = placement.spread(strength_of(condition), trials)
        elif condition == GREY:
            experiment, delta_v = CLEAN, np.zeros(trials)
        else:
            continue
        parts.append(
            make_responses(
                trials,
                source="geirhos2018",
                choices=16,
                label_space="entry16",
                citation=CITATION,
                licence="CC BY 4.0",
                corruption=np.full(trials, experiment),
                condition=np.full(trials, condition),
                subject=np.full(trials, f"{row['experiment']}/{row['subject']}"),
                delta_v=delta_v,
                correct=np.full(trials, int(row["correct"]) / trials),
            )
        )
    return join_responses(parts)
