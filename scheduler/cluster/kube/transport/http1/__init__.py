"""A client for short HTTP/1.1 requests to one server, which costs a fraction of the processor time of aiohttp's.

``response`` parses, ``connection`` carries one request at a time, ``pool`` keeps connections open between requests.
"""
