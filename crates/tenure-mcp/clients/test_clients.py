"""tenure mcp as the official Python client sees it, in both generations of the protocol."""

import json
import os
from contextlib import asynccontextmanager

import anyio
import mcp
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client

TENURE = os.environ.get("TENURE_COMMAND", "tenure")
#: How long anything may take before the test fails.
PATIENCE = 120
#: How the client chooses the version, and the version that it gets.
GENERATIONS = [("legacy", "2025-11-25"), ("auto", "2026-07-28")]


@asynccontextmanager
async def connected(root, mode):
    server = StdioServerParameters(command=TENURE, args=["mcp", "--root", str(root)])
    async with mcp.Client(stdio_client(server), mode=mode) as client:
        yield client


async def call(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def refused(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    assert result.is_error, result
    return result.content[0].text


def run(test, *arguments):
    async def bounded():
        with anyio.fail_after(PATIENCE):
            await test(*arguments)

    anyio.run(bounded)


@pytest.mark.parametrize(("mode", "version"), GENERATIONS)
def test_list_call_errors_and_resources(root, mode, version):
    async def conversation():
        async with connected(root, mode) as client:
            assert client.protocol_version == version
            assert client.server_info.name == "tenure"
            assert "reserve_files" in client.instructions
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"reserve_files", "read_document", "append_journal"} <= names
            # Digits survive, which a number of JavaScript would lose.
            await call(client, "write_document", path="a.json", value={"n": 12345678901234567890})
            assert (await call(client, "read_document", path="a.json"))["value"] == {"n": 12345678901234567890}
            assert "outside of" in await refused(client, "read_document", path="../a.json")
            assert "Next:" in await refused(client, "write_document", path="a.json", value=1, if_version="1-" + "0" * 32)
            resources = (await client.list_resources()).resources
            assert [str(each.uri) for each in resources] == ["tenure://document/a.json"]
            read = await client.read_resource(resources[0].uri)
            assert json.loads(read.contents[0].text)["n"] == 12345678901234567890

    run(conversation)


@pytest.mark.parametrize("mode", [mode for mode, _ in GENERATIONS])
def test_a_waiting_call_is_cancelled_while_another_is_served(root, mode):
    async def conversation():
        async with connected(root, mode) as client:
            async with anyio.create_task_group() as group:
                waiting = anyio.CancelScope()

                async def wait():
                    with waiting:
                        await call(client, "read_journal", path="log.jsonl", wait_seconds=3600)
                        raise AssertionError("nothing was to be read")

                group.start_soon(wait)
                await call(client, "write_document", path="a.json", value=1)
                waiting.cancel()
            await call(client, "append_journal", path="log.jsonl", entries=[1])
            assert len((await call(client, "read_journal", path="log.jsonl"))["entries"]) == 1

    run(conversation)


def test_two_clients_share_reservations_and_lose_no_update(root):
    async def conversation():
        async with connected(root, "legacy") as one, connected(root, "auto") as two:
            wanted = {"paths": ["src/*.rs"], "reason": "a test"}
            await call(one, "reserve_files", agent="alice", **wanted)
            assert "alice" in await refused(two, "reserve_files", agent="bob", **wanted)
            async with anyio.create_task_group() as group:
                for client in (one, two):
                    for _ in range(10):
                        add = {"path": "n.json", "patch": {"n": 1}, "sum": ["/n"], "wait_seconds": 60}
                        group.start_soon(lambda client=client, add=add: call(client, "merge_document", **add))
            assert (await call(one, "read_document", path="n.json"))["value"] == {"n": 20}

    run(conversation)
