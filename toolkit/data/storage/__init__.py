"""The on-disk format: columns, headers, checksums, folders."""
