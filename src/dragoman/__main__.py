"""``python -m dragoman``."""

INTERRUPTED = 130
"""Exit code after Ctrl-C while a command had not yet begun."""


def run() -> None:
    """The command line, also when Ctrl-C comes while it is still being imported."""
    try:
        from dragoman.cli.main import main  # noqa: PLC0415  it takes its time

        main()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    run()
