"""A carrier that stays within the process: the clients' halves answer at once, each anew for every question."""

import time

from fedsim.deploy import package
from fedsim.deploy.assemble import packages
from fedsim.deploy.post import Brought, Post
from fedsim.deploy.run import run
from fedsim.deploy.worker import Worker


class Here(Post):
    """Clients with packages in these folders; those in `gone` never answer a job, and `slow` take so many seconds."""

    def __init__(self, folders, gone=(), slow=None):
        self.folders, self.gone, self.slow = folders, gone, slow or {}
        self.ready, self.sent = [], []

    def send(self, number, client, data):
        self.sent.append((client, data))
        due = time.monotonic() + self.slow.get(client, 0.0)
        if client in self.gone and b"work" in data[:200]:
            self.ready.append((due, Brought(number, None, error="it is gone")))
        else:
            answer = Worker(self.folders[client]).answer(data)
            self.ready.append((due, Brought(number, answer, len(answer) + 100)))
        return len(data) + 100

    def poll(self, seconds):
        now = time.monotonic()
        found = [one for due, one in self.ready if due <= now]
        self.ready = [(due, one) for due, one in self.ready if due > now]
        if not found:
            time.sleep(min(seconds, 0.01))
        return found


def deploy(folder, point, data="unused", **how):
    """Deploy a point within this process; return its row and the carrier."""
    folder.mkdir(parents=True)
    owns = packages(point.scenario, folder)
    for own in owns:
        package.write(folder / f"client-{own.client}", point.scenario, own)
    post = Here([folder / f"client-{own.client}" for own in owns], **how)
    return run(point, folder, folder, post, lambda progress: None), post
