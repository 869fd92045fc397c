"""``python -m tests.fake_agent``."""

import sys

from tests.fake_agent.agent import Agent, parse

sys.exit(Agent(parse(sys.argv[1:])).run())
