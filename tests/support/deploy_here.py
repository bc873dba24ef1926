"""A carrier that stays within the process: the clients' halves answer at once, each anew for every question."""

import time

from fedsim.deploy import package
from fedsim.deploy.messages import WORK, Delivered, Post, Question, unpack
from fedsim.deploy.run import packages, run
from fedsim.deploy.worker import Worker


class Here(Post):
    """Clients with packages in these folders; those in `gone` never answer a job, and `slow` take so many seconds.

    `gone` may say for how many jobs each is away; `before` is called with the number of each question.
    """

    def __init__(self, folders, gone=(), slow=None, before=lambda number: None):
        self.folders, self.slow, self.before = folders, slow or {}, before
        self.gone = gone if isinstance(gone, dict) else dict.fromkeys(gone, float("inf"))
        self.ready, self.sent = [], []

    def send(self, number, client, data):
        self.sent.append((client, data))
        self.before(number)
        due = time.monotonic() + self.slow.get(client, 0.0)
        if self.gone.get(client, 0) > 0 and unpack(Question, data).what == WORK:
            self.gone[client] -= 1
            self.ready.append((due, Delivered(number, None, error="it is gone")))
        else:
            answer = Worker(self.folders[client]).answer(data)
            self.ready.append((due, Delivered(number, answer, len(answer) + 100)))
        return len(data) + 100

    def poll(self, seconds):
        now = time.monotonic()
        found = [one for due, one in self.ready if due <= now]
        self.ready = [(due, one) for due, one in self.ready if due > now]
        if not found:
            time.sleep(min(seconds, 0.01))
        return found


def packed(folder, point):
    """Write the packages of a point, and return their folders."""
    owns = packages(point.scenario, folder)
    places = [folder / f"client-{own.client}" for own in owns]
    for own, place in zip(owns, places, strict=True):
        package.write(place, point.scenario, own)
    return places


def deploy(folder, point, places=None, **how):
    """Deploy a point within this process, with new packages if none are given; return its row and the carrier."""
    folder.mkdir(parents=True)
    post = Here(places or packed(folder, point), **how)
    return run(point, folder, folder, post, lambda progress: None), post
