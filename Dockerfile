# One gateway. Sessions are kept in /data; a configuration file, when there is one, is mounted at /etc/headwater/headwater.toml
# and named by HEADWATER_CONFIG.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 headwater && mkdir /data && chown headwater /data
COPY --from=build /src/target/release/headwater /usr/local/bin/headwater
USER headwater
VOLUME /data
# There is no authentication yet: publish the port to networks that you trust only.
ENV HEADWATER__SERVER__LISTEN=0.0.0.0:8080 \
    HEADWATER__AUTH__ALLOW_OPEN=true \
    HEADWATER__STORE__PATH=/data \
    HEADWATER__LOG__FORMAT=json
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s CMD curl -fsS http://127.0.0.1:8080/healthz || exit 1
ENTRYPOINT ["headwater"]
