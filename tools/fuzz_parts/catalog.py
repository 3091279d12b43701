"""The kinds of damage of tools/fuzz.py, by name."""

from fuzz_parts import damages, policies, strangers
from fuzz_parts.damages import Damage

DAMAGES: dict[str, Damage] = {
    "one flipped bit": damages.flip_one,
    "many flipped bits": damages.flip_many,
    "flips in the head": damages.flip_head,
    "overwritten block": damages.overwrite,
    "zeroed block": strangers.zeroed,
    "heap": strangers.heap,
    "truncated": damages.truncate,
    "deleted": damages.delete,
    "reshaped": damages.reshape,
    "links, filters, sizes": damages.link,
    "links of paths": damages.path_link,
    "attributes": damages.attribute,
    "crafted with hashes": damages.craft,
    "splices of another run": strangers.splice,
    "bombs": strangers.bomb,
    "states against config": strangers.state,
    "journal, bytes": damages.journal_bytes,
    "journal, contents": damages.journal_contents,
    "settings of a stranger": policies.settings,
}
KINDS = (*DAMAGES, "policies", "options")
# Other bits than the original may be right: a stranger wrote them, with the right hashes.
CRAFTED = ("crafted with hashes", "attributes", "states against config", "journal, contents", "settings of a stranger")
TEMPLATES = {
    "journal, bytes": "killed",
    "journal, contents": "killed",
    "settings of a stranger": "policy",
    "policies": "policy",
}
