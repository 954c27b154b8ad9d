"""The search for evictions that make room: ``solver`` is its frame, ``policy`` what it is asked to do."""
