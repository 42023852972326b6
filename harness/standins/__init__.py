"""Local servers that speak a provider's protocol, so that the real SDKs can be tested over a socket."""
