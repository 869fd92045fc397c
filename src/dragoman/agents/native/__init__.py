"""The native agent: a model with tools."""
