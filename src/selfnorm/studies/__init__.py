"""Studies: many trainings from one file, the steps after each, engines that run them, benchmarks, and the demo."""
