"""`python -m fedsim.analysis RUNS...` is `python -m analysis` for any folder, also where fedsim is installed."""

import sys

from analysis.__main__ import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m fedsim.analysis"))
