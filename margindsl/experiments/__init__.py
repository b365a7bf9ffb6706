"""Published experiments re-run: data sets, protocols, baselines, tables."""
