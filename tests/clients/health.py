"""What relay says of itself, for the scripts that wait for what nothing else tells."""

import asyncio
import json
import urllib.request


def connections(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
        return json.load(answer)["connections"]


async def a_read_waits(port):
    """Returns once a read waits. A call that was begun after it may be answered before relay has heard of it."""
    while not any(connection["waits"] for connection in await asyncio.to_thread(connections, port)):
        await asyncio.sleep(0.01)
