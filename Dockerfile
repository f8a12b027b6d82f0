# fedteddi on a CPU. `docker run` without a command plays the first run; any command of fedteddi takes its place.
#
#     docker build -t fedteddi .
#     docker run --rm -v fedteddi-runs:/work/runs fedteddi
#     docker run --rm fedteddi schedulers
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:${PYTHON}-slim
# Where PyTorch for CPUs lies; with https://pypi.org/simple PyTorch comes with CUDA, and the image has several gigabytes more.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# Such as sim,flower; docs/install.md lists them.
ARG EXTRAS=sim
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --extra-index-url "${TORCH_INDEX}" --constraint /wheels/constraints.txt \
    "$(echo /wheels/fedteddi-*.whl)[${EXTRAS}]"
RUN useradd --create-home fedteddi && install --directory --owner=fedteddi --group=fedteddi /work /work/runs
USER fedteddi
WORKDIR /work
ENTRYPOINT ["fedteddi"]
CMD ["compare", "--scheduler", "fedteddi", "--scheduler", "random", "--out", "runs/first", "--resume"]
