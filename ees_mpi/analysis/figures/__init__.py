"""The paper's figures: one module per kind, a catalog, one style."""
