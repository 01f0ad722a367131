"""Many steps of many chains: request, plan of the run, compiled program, loop, samples."""
