"""The native agent: a model with tools. What its tools may touch, and which commands run unasked."""
