# docker build -t fedsim . && docker run --rm -v "$PWD:/work" fedsim scenarios/sparse_clients.yaml
# Without a GPU.  `nox -s image` takes the same steps in an environment of its own, without Docker.
FROM python:3.13-slim
# torch for the processor alone: a tenth of the size of PyPI's own build for CUDA
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
COPY . /fedsim
RUN pip install --no-cache-dir -c /fedsim/constraints.txt "/fedsim[learn]"
WORKDIR /work
ENTRYPOINT ["python", "-m", "fedsim"]
CMD ["--help"]
