"""The web as a native agent's tools see it: pages fetched under the URL guard, their text, and search engines."""
