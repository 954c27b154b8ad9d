"""The controllers: what should be, from what is. Everything here is data in, data out: a controller looks at the store
and plans writes; who carries them out (a real API server, a cluster in memory) belongs to ``scheduler.cluster``."""
