"""The algorithm: objectives, populations, optimizers, kernel sums, stochastic computation graphs."""
