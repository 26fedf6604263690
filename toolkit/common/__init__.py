"""Registry, plugins, errors and small torch-free helpers."""
