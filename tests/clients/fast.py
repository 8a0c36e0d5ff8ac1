"""FastMCP's client of relay: `fast.py RELAY PORT TRANSPORT,MODE…`, run by fastmcp.test.js. In each of these ways it connects, lists, posts,
reads and waits. It prints each with the version of the protocol that was agreed on; what does not hold ends it with an error."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

from health import a_read_waits

RELAY, PORT, *WAYS = sys.argv[1:]
TOOLS = ["list_pending", "post_message", "read_messages"]
SERVERS = {
    "sse": lambda: SSETransport(f"http://127.0.0.1:{PORT}/sse"),
    "http": lambda: StreamableHttpTransport(f"http://127.0.0.1:{PORT}/mcp"),
    "stdio": lambda: StdioTransport(RELAY, ["mcp", "--port", PORT]),
}


def same(actual, expected):
    assert actual == expected, f"\n  is     {actual!r}\n  not as {expected!r}"


async def texts(client, tool, is_error=False, **arguments):
    arguments = {name.rstrip("_"): value for name, value in arguments.items()}
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    same(result.is_error, is_error)
    return [block.text for block in result.content]


async def post(client, sender, to, kind, body):
    text, *_notes = await texts(client, "post_message", from_=sender, to=to, kind=kind, body=body)
    return {"id": json.loads(text)["id"], "from": sender, "to": to, "kind": kind, "body": body}


async def read(client, role, **more):
    array, *_notice = await texts(client, "read_messages", for_=role, **more)
    return [{name: value for name, value in message.items() if name != "ts"} for message in json.loads(array)]


async def shown(transport, mode):
    """What was agreed on, if all that is to be seen is seen."""

    def connect():
        return Client(SERVERS[transport](), mode=mode)

    async with connect() as reader, connect() as poster:
        same(sorted(tool.name for tool in await reader.list_tools()), TOOLS)
        posted = [
            await post(poster, "pm", "dev-a", "status", "one"),
            await post(poster, "dev-b", "dev-a", "question", "zwei \u2028 \U0001f600\r\n"),
        ]
        [pending] = await texts(reader, "list_pending", for_="dev-a")
        same(json.loads(pending), {"count": 2, "kinds": ["status", "question"]})
        same(await read(reader, "dev-a"), posted)
        same(await read(reader, "dev-a"), [])
        waiting = asyncio.create_task(read(reader, "dev-a", wait_seconds=60))
        await a_read_waits(PORT)
        woken = await post(poster, "pm", "dev-a", "directive", "wake up")
        same(await asyncio.wait_for(waiting, 20), [woken])
        [refused] = await texts(reader, "list_pending", is_error=True, for_="nobody")
        assert refused.startswith('Error: unknown role "nobody"'), refused
        return reader.protocol_version


async def main():
    ways = [way.split(",") for way in WAYS]
    print(json.dumps([[*way, await shown(*way)] for way in ways]))


asyncio.run(main())
