//! The server as its clients see it: HTTP, server-sent events, WebSocket, on a free port, with a script for a model.

mod app;
mod bad_input;
mod described;
mod frames;
mod hostile;
mod hostile_http;
mod http;
mod limits;
mod lingering;
mod native;
mod native_socket;
mod origins;
mod raw;
mod reader;
mod rest;
mod resume;
mod shared_socket;
mod shared_waits;
mod socket;
mod socket_faults;
mod sse;
mod steering;
mod waiting;
mod wire;
mod worker_socket;
mod workers;
