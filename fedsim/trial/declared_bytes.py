"""The promise that an upload has the size that `upload_like` declares, in every step of every round."""

from fedsim.core import wire
from fedsim.learn import declared
from fedsim.trial import encodable
from fedsim.trial.finding import Finding, broken, warning
from fedsim.trial.trial import Trial


def check(trial: Trial) -> list[Finding]:
    """Compare every upload with what was declared of it; of each step the first that differs is reported."""
    found: dict[str, Finding] = {}
    for work in trial.played.works:
        step = work.job.step
        if step in found or encodable.unfit(work.upload):  # which has no size
            continue
        if work.declared is None and trial.cls.talks:
            found[step] = warning(
                f"upload_like returns None for step {step!r}: how large an upload is then is known only after its "
                "training, so that clients are trained one by one",
                trial.method("upload_like"),
                'return a tree of the same shapes, such as {"update": job.download["model"], "samples": 0}',
            )
        elif work.declared is not None and wire.size(work.declared) != wire.size(work.upload):
            message = declared.difference(work.declared, work.upload)
            found[step] = broken(
                f"upload_like declares {wire.size(work.declared)} bytes for step {step!r}, client {work.job.client} "
                f"sends {wire.size(work.upload)}: {message}",
                trial.method("upload_like"),
                f"make it agree with what work returns ({trial.method('work')})"
                + ("" if "upload_like" in vars(trial.cls) else f"; it is inherited: give {trial.cls.__name__} its own"),
            )
    return list(found.values())
