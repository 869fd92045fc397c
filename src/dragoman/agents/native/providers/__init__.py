"""Model providers: the port (`port`, `conversation`), its adapters, and what is known of each provider."""
