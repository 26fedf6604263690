"""Names of the events in the log of a run, metrics.jsonl."""

METRIC_EVENTS = ("train", "valid")
RUN_EVENTS = ("start", "save", "save_failed", "skipped_update", "split_update", "end")
"""Events that are not shown on dashboards."""
EVENTS = METRIC_EVENTS + RUN_EVENTS
"""The events that toolkit-train writes. Others have the names of callbacks."""
