"""Functions of the Python surface that train and evaluate; `toolkit` exports them."""
