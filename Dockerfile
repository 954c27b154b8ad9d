# One image for every role: the role is the first argument, as in `scheduler` or `simulate -f DIR`.
# PYTHON_IMAGE lets a build take the base from a mirror or pin it by digest.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# Dependencies first: this layer changes only with the lock file. The environment gets no pip of its own.
COPY requirements-runtime.lock ./
RUN python -m venv --without-pip /opt/volcano-py \
    && python -m pip --python /opt/volcano-py/bin/python install \
        --require-hashes --only-binary=:all: -r requirements-runtime.lock

# The build backend is pinned and hashed by the full lock; it stays behind in this stage.
COPY requirements.lock ./
RUN python -m pip install --require-hashes --only-binary=:all: -r requirements.lock

COPY pyproject.toml LICENSE README* ./
COPY scheduler ./scheduler
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && python -m pip --python /opt/volcano-py/bin/python install --no-deps --no-index /dist/*.whl \
    && /opt/volcano-py/bin/python -m compileall -q /opt/volcano-py/lib

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="volcano-py" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/volcano-py /opt/volcano-py
ENV PATH=/opt/volcano-py/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# An id without a name: nothing in the image belongs to it, and Pods may demand runAsNonRoot.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["volcano-py"]
CMD ["--help"]
