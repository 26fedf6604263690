"""The option engine: command line, YAML and Python to typed configurations."""
