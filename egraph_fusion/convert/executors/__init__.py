"""Where jobs run: one small interface, local processes and a Dask cluster behind it."""
