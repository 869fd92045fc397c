"""The native agent: a model with tools. So far the guards that its tools stand behind."""
