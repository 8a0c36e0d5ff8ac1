"""The Python SDK as the client of one agent: `calls.py URL`, run by support/agents.js.

It says `{"id": 0, "protocol"}` once it is connected. It takes a line for each call, `{"id", "tool", "arguments"}`, makes all
calls side by side, and answers each with `{"id", "result"}`. `{"id", "listen"}` with the addresses of resources begins to
listen and is answered with those of them that the server tells of; each change of one is said as `{"updated"}`.
"""

import asyncio
import json
import sys

import anyio
from mcp import Client


def say(**line):
    print(json.dumps(line), flush=True)


async def main(url):
    async with Client(url, mode="auto") as client:
        say(id=0, protocol=client.protocol_version)

        async def call(id, tool, arguments):
            result = await client.call_tool(tool, arguments)
            say(id=id, result=result.model_dump(mode="json", by_alias=True))

        async def listen(id, listen):
            async with client.listen(resource_subscriptions=listen) as changes:
                say(id=id, result=changes.honored.resource_subscriptions)
                async for change in changes:
                    say(updated=change.uri)

        async with anyio.create_task_group() as group:
            while line := await anyio.to_thread.run_sync(sys.stdin.readline):
                asked = json.loads(line)
                what = listen if "listen" in asked else call
                group.start_soon(lambda what=what, asked=asked: what(**asked))
            group.cancel_scope.cancel()


asyncio.run(main(sys.argv[1]))
