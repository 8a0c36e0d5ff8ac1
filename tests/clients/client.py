"""The Python SDK as a client of relay: `client.py RELAY`, run by python.test.js.

It takes one line for each fact that it is to show, `{"fact", "transport", "mode", "port"}`, and answers it with
`{"shown"}`, which is what the fact has to tell, or with `{"failed"}` and why. Where the server must be killed and
started anew, it says `{"restart": true}` and goes on when a line comes in.
"""

import asyncio
import dataclasses
import datetime
import json
import re
import sys
import traceback
import uuid

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

from health import a_read_waits

[RELAY] = sys.argv[1:]
TOOLS = ["list_pending", "post_message", "read_messages"]
NOTHING = {"count": 0, "kinds": []}
NOTICE = re.compile(
    r"relay started at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z); nothing sent before that is here; "
    r"send again what was not acknowledged"
)


@dataclasses.dataclass
class Way:
    """How to reach a relay."""

    transport: str
    mode: str
    port: int

    def connect(self) -> Client:
        """A client that is not yet open."""
        servers = {
            "sse": lambda: sse_client(f"http://127.0.0.1:{self.port}/sse"),
            "http": lambda: f"http://127.0.0.1:{self.port}/mcp",
            "stdio": lambda: StdioServerParameters(command=RELAY, args=["mcp", "--port", str(self.port)]),
        }
        return Client(servers[self.transport](), mode=self.mode)


def same(actual, expected):
    assert actual == expected, f"\n  is     {actual!r}\n  not as {expected!r}"


async def texts(client, tool, is_error=False, **arguments):
    result = await client.call_tool(tool, {name.rstrip("_"): value for name, value in arguments.items()})
    same((result.is_error, {block.type for block in result.content}), (is_error, {"text"}))
    return [block.text for block in result.content]


async def post(client, sender, to, kind, body):
    text, *notes = await texts(client, "post_message", from_=sender, to=to, kind=kind, body=body)
    answer = json.loads(text)
    same(list(answer), ["id"])
    assert all(note.startswith("note: ") or NOTICE.fullmatch(note) for note in notes), notes
    same(uuid.UUID(answer["id"]).version, 4)
    return {"id": answer["id"], "from": sender, "to": to, "kind": kind, "body": body}


async def pending(client, role):
    [text] = await texts(client, "list_pending", for_=role)
    return json.loads(text)


async def read(client, role, **more):
    """The messages without their time, and the start named by the restart notice."""
    array, *notice = await texts(client, "read_messages", for_=role, **more)
    messages = json.loads(array)
    for message in messages:
        datetime.datetime.strptime(message.pop("ts"), "%Y-%m-%dT%H:%M:%S.%fZ")
    assert len(notice) <= 1, notice
    return messages, NOTICE.fullmatch(notice[0]).group(1) if notice else None


async def error(client, tool, **arguments):
    [text] = await texts(client, tool, is_error=True, **arguments)
    return text


async def protocol(way):
    async with way.connect() as client:
        listed = await client.list_tools()
        same(sorted(tool.name for tool in listed.tools), TOOLS)
        assert all(tool in client.instructions for tool in TOOLS), client.instructions
        return client.protocol_version


async def messages(way):
    async with way.connect() as first, way.connect() as second:
        posted = [
            await post(first, "dev-a", "pm", "status", "one"),
            await post(second, "dev-b", "pm", "question", "zwei \u2028 \U0001f600\r\n"),
            await post(first, "dev-a", "pm", "directive", ""),
        ]
        same(await pending(second, "pm"), {"count": 3, "kinds": ["status", "question", "directive"]})
        messages, started = await read(second, "pm")
        same(messages, posted)
        # Nobody had a session before the first start.
        assert started is None
        same(await read(first, "pm"), ([], None))
        for role in ["dev-a", "dev-b"]:
            same(await read(first, role), ([], started))
            same(await read(second, role), ([], None))

        assert (await error(first, "list_pending", for_="dev-c")).startswith('Error: unknown role "dev-c"')
        assert (await error(first, "drop", for_="pm")).startswith('Error: unknown tool "drop"')
        assert "body" in await error(first, "post_message", from_="pm", to="pm", kind="free")
        same(await pending(first, "pm"), NOTHING)


async def hears(client, role):
    """Shows that a role has nothing to hear, so that its next read waits."""
    same(await read(client, role), ([], None))


async def wait(way):
    async with way.connect() as reader, way.connect() as poster:
        await hears(reader, "dev-a")
        waiting = asyncio.create_task(read(reader, "dev-a", wait_seconds=60))
        await a_read_waits(way.port)
        same(await pending(reader, "dev-a"), NOTHING)
        assert not waiting.done()
        woken = await post(poster, "pm", "dev-a", "directive", "wake up")
        same((await asyncio.wait_for(waiting, 5))[0], [woken])


async def cancel(way):
    async with way.connect() as reader, way.connect() as poster:
        await hears(reader, "dev-a")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: read(reader, "dev-a", wait_seconds=60))
                await a_read_waits(way.port)
                same(await pending(reader, "dev-a"), NOTHING)
                scope.cancel()
        assert scope.cancelled_caught
        same(await pending(reader, "dev-a"), NOTHING)
        kept = await post(poster, "pm", "dev-a", "directive", "for whoever still reads")
        same((await read(poster, "dev-a"))[0], [kept])


async def restart_now():
    say(restart=True)
    assert await anyio.to_thread.run_sync(sys.stdin.readline)


async def restart(way):
    async with way.connect() as client:
        await post(client, "dev-a", "pm", "status", "lost")
        await post(client, "pm", "dev-b", "status", "lost")
        await restart_now()
        if way.transport == "sse":
            # This SDK's event stream ends with its connection, and only a new client opens another.
            async with way.connect() as anew:
                await goes_on(anew)
        else:
            await goes_on(client)


async def goes_on(client):
    text, *more = await texts(client, "post_message", from_="dev-a", to="pm", kind="status", body="kept")
    start = NOTICE.fullmatch(more[-1]).group(1)
    messages, told = await read(client, "pm")
    same([message["body"] for message in messages], ["kept"])
    same(told, start)
    # It was told with its post.
    same(await read(client, "dev-a"), ([], None))
    # It had no session before.
    same(await read(client, "dev-b"), ([], None))


def say(**line):
    print(json.dumps(line), flush=True)


FACTS = {fact.__name__: fact for fact in [protocol, messages, wait, cancel, restart]}

for line in iter(sys.stdin.readline, ""):
    asked = json.loads(line)
    fact = FACTS[asked.pop("fact")]
    try:
        say(shown=asyncio.run(fact(Way(**asked))))
    except (Exception, BaseExceptionGroup):
        say(failed=traceback.format_exc())
