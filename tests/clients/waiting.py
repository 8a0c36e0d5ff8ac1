"""The Python SDK as a client whose read waits while relay is killed: `waiting.py WAY TRANSPORT MODE PORT RELAY`, run by
restart-python.test.js.

It prints `waits`, takes a line when relay is back, prints `saw` with what the wait came to, and then whether the client
goes on. A way of `progress` waits for word of progress first.
"""

import asyncio
import sys

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

from health import a_read_waits

WAY, TRANSPORT, MODE, PORT, RELAY = sys.argv[1:]
SERVERS = {
    "sse": lambda: sse_client(f"http://127.0.0.1:{PORT}/sse"),
    "http": lambda: f"http://127.0.0.1:{PORT}/mcp",
    "stdio": lambda: StdioServerParameters(command=RELAY, args=["mcp", "--port", PORT]),
}


def shown(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def waits_for_return(client):
    progress = asyncio.Event()

    async def tell(*_):
        progress.set()

    more = {"progress_callback": tell} if WAY == "progress" else {}
    arguments = {"for": "dev-a", "wait_seconds": 60}
    wait = asyncio.create_task(client.call_tool("read_messages", arguments, **more))
    if WAY == "progress":
        await progress.wait()
    else:
        await a_read_waits(PORT)
        await client.call_tool("list_pending", {"for": "dev-a"})
    print("waits", flush=True)
    back = asyncio.create_task(anyio.to_thread.run_sync(sys.stdin.readline))
    try:
        result = await wait
        assert result.is_error, result
        print("saw", result.content[0].text, flush=True)
    finally:
        await asyncio.shield(back)


async def main():
    said = False
    try:
        async with Client(SERVERS[TRANSPORT](), mode=MODE) as client:
            await client.call_tool("read_messages", {"for": "dev-a"})
            try:
                await waits_for_return(client)
            except Exception as error:
                print("saw", shown(error), flush=True)
                said = True
            await client.call_tool("list_pending", {"for": "dev-a"})
            print("goes on")
    except BaseException as error:
        if not said:
            print("saw", shown(error), flush=True)
        print("ended")


asyncio.run(main())
