"""Many runs as one: grids, jobs, comparison tables; never sees a tensor."""
