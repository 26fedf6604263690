"""Entry points: parse the command line, call one function, report errors."""
