"""The typed config: its sections and keys, how a file is read and changed, and the names of the runs of a sweep.

A config is TOML: a preset or a file. Sections `task` and `population` name a member of their family and hold its keys;
`run` and `noise` are those of `settings`. The other sections belong to the method: `objective` and `optimizer` for
evolution strategies (`method = "ees"`, the default).
"""

from ees_mpi.config.methods import METHODS as METHODS
from ees_mpi.config.methods import Evolution as Evolution
from ees_mpi.config.parsing import OBSERVED as OBSERVED
from ees_mpi.config.parsing import Config as Config
from ees_mpi.config.parsing import Source as Source
from ees_mpi.config.parsing import changed_keys as changed_keys
from ees_mpi.config.parsing import check as check
from ees_mpi.config.parsing import enough as enough
from ees_mpi.config.parsing import is_set as is_set
from ees_mpi.config.parsing import load as load
from ees_mpi.config.parsing import parse as parse
from ees_mpi.config.parsing import preset_names as preset_names
from ees_mpi.config.parsing import read_source as read_source
from ees_mpi.config.parsing import with_base as with_base
from ees_mpi.config.parsing import written as written
from ees_mpi.config.settings import FREE_ON_RESUME as FREE_ON_RESUME
from ees_mpi.config.settings import INERT as INERT
from ees_mpi.config.settings import LARGEST as LARGEST
from ees_mpi.config.settings import NoiseSettings as NoiseSettings
from ees_mpi.config.settings import RunSettings as RunSettings
