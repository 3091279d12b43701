"""Any Gymnasium environment as a task."""
