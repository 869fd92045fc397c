"""How hooks of ours get into the settings of the person's agents, and out again without a trace."""
