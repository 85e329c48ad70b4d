from eyechart.core.progress import NO_PROGRESS, JointProgress


def test_joint_progress_counts_every_part_on_one_callback():
    calls = []
    progress = JointProgress(lambda n_done, message: calls.append((n_done, message)))
    progress.begin("first", 2)(1, "")
    progress.begin("second", 5)(3, "note")
    assert calls == [(1, ""), (3, "note")]


def test_no_progress_accepts_every_step():
    assert NO_PROGRESS.begin("first", 2)(1, "note") is None
