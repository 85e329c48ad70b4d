"""Files and folders that survive kills: atomic files, locks, job queues, shards and URLs."""
