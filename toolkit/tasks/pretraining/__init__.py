"""Pre-training objectives: mlm, mpm and rtd."""
