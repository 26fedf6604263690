"""Classification and regression tables: GLUE and TSV."""
