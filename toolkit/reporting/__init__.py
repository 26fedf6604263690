"""Console, progress, tables, event logs and dashboards."""
