"""The commands that are more than a call: plan, verify, doctor, info, sample, adapt, export, config."""
