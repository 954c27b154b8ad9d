"""A client for HTTP/1.1 requests to one server, which costs a fraction of the processor time of aiohttp's.

``response`` parses a response; ``connections`` carry one request at a time and are kept open
between requests.
"""
