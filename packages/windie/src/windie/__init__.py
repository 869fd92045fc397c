"""``dragoman.client.windie`` under the name that WindieOS' documentation imports."""

from dragoman.client.windie import *  # noqa: F403
from dragoman.client.windie import __all__ as __all__
