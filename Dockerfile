# One image for every role: the role is the first argument, as in `scheduler` or `simulate -f DIR`.
# The build stage needs a Debian base with Python, since the locked wheels need glibc. PYTHON_IMAGE lets a build take the
# base from a mirror or pin it by digest.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
# The time of all files of the image, for builds that can be repeated.
ARG SOURCE_DATE_EPOCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_COMPILE=1 \
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
    && python -m pip --python /opt/volcano-py/bin/python install --no-deps --no-index /dist/*.whl

# The root file system of the image: Python, the program, and the libraries of both; nothing that is never loaded.
COPY image ./image
RUN python -m image.rootfs /opt/volcano-py /rootfs

FROM scratch
LABEL org.opencontainers.image.title="volcano-py" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /rootfs /
ENV PATH=/opt/volcano-py/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Nothing in the image belongs to this user, and Pods may demand runAsNonRoot.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["volcano-py"]
CMD ["--help"]
