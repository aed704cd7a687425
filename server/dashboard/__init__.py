"""HTTP server of the page in the browser: on loopback, for who holds its token, and for reading alone."""
