"""Somebody else's client, with the official Python SDK: starts, asks, changes and signals workflows of ours.

Usage: client.py ADDRESS TASK_QUEUE; prints what came of it as one line of JSON.
"""

import asyncio
import json
import os
import sys

from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError


async def main(address, queue):
    client = await Client.connect(address)
    greeting = await client.execute_workflow("greet", "Ada", id="python-greet", task_queue=queue)

    order = {"item": "tea", "amount": 1200, "patience_ms": 600_000}
    handle = await client.start_workflow("order", order, id="python-order", task_queue=queue)
    while (status := await handle.query("status")) != "awaiting_approval":
        await asyncio.sleep(0.05)
    before = await handle.execute_update("change_item", "cake")
    try:
        await handle.execute_update("change_item", "")
        refused = None
    except WorkflowUpdateFailedError as error:
        refused = str(error.cause)
    await handle.signal("approve", {"by": "Python"})
    shipped = await handle.result()

    free = await client.start_workflow("order", {"amount": 0}, id="python-free", task_queue=queue)
    try:
        failure = await free.result()
    except WorkflowFailureError as error:
        # The workflow's failure, the activity's, and at last what the activity said.
        said = error
        while said.cause:
            said = said.cause
        failure = {"kind": type(said).__name__, "type": said.type, "retryable": not said.non_retryable}

    print(json.dumps({
        "greeting": greeting,
        "status": status,
        "before": before,
        "refused": refused,
        "shipped": shipped,
        "failure": failure,
    }), flush=True)


asyncio.run(main(*sys.argv[1:]))
# The SDK's own threads are not waited for: what they do while the interpreter ends is not part of the test.
os._exit(0)
