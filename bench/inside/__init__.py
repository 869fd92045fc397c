"""What is measured inside a process: our hub and journal without a socket. Each module is a process of its own."""
