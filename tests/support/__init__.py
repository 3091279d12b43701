"""Everything that tests share: commands, small runs, programs for ranks, tasks and objectives of a user."""
