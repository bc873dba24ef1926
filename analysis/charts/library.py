"""The scripts of Vega-Lite that a page draws its charts with.

Putting them together takes a second, in which Python can do nothing else; so another process does it meanwhile.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BUNDLE = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode())
"""
COMMAND = (sys.executable, "-P", "-c", BUNDLE)  # -P: nothing in the working folder is imported


@contextmanager
def bundled() -> Iterator[Callable[[], str]]:
    """Begin to put the scripts together, and give a function that waits for them and returns them as one.

    The script sets `vegaEmbed`.  The function raises CalledProcessError where the process fails.
    """
    process = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def library() -> str:
        script, messages = process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, COMMAND, script, messages)
        # the end of a script element, were it ever inside a string of theirs, would end ours
        return script.decode().replace("</script", "<\\/script")

    with process:
        try:
            yield library
        finally:
            process.kill()
