"""Files and folders of checkpoints; no trainer is needed to read them."""
