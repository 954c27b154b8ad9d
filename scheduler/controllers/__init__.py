"""The controllers: from the observed state to the desired one. Everything here is data in, data out: a controller reads
the store and plans writes; ``scheduler.cluster`` carries them out, on a real API server or a cluster in memory."""
