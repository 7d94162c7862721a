"""Acts: one file per tool, plus what the tools share. Knows neither `agent` nor `memory`."""
