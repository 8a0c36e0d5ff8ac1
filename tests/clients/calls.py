"""The Python SDK as the client of one agent: `calls.py URL`, run by support/agents.js.

It says `{"id": 0, "protocol"}` once it is connected. It takes a line for each call, `{"id", "tool", "arguments"}`, makes all
calls side by side, and answers each with `{"id", "result"}`.
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

        async with anyio.create_task_group() as group:
            while line := await anyio.to_thread.run_sync(sys.stdin.readline):
                group.start_soon(lambda asked=json.loads(line): call(**asked))
            group.cancel_scope.cancel()


asyncio.run(main(sys.argv[1]))
