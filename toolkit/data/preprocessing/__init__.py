"""Steps of toolkit-preprocess that all formats share."""
