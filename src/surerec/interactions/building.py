"""What whoever builds profiles elsewhere shares with reading in memory, so that both are equal."""

from surerec.interactions._ids import encode
from surerec.interactions._kernels import compact_profiles
from surerec.interactions._profiles import Profiles, build_profiles, places_in_order

__all__ = ["Profiles", "build_profiles", "compact_profiles", "encode", "places_in_order"]
