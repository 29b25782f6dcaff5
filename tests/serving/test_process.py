"""The supervisor's end of a worker process."""

import asyncio
import socket
import sys

from surerec.serving._process import Channel, WorkerProcess


async def _ask_one_that_has_died():
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    worker = WorkerProcess(process, await Channel.open(ours))
    asked = asyncio.create_task(worker.ask("prepare", model="one"))
    await asyncio.sleep(0)
    theirs.close()
    await process.wait()
    worker.gone()
    async with asyncio.timeout(5):
        return await asked, await worker.ask("swap")


def test_who_dies_has_done_nothing_whether_asked_before_or_after():
    """A takeover waits for every answer: one that never came would end all takeovers."""
    assert asyncio.run(_ask_one_that_has_died()) == (False, False)
