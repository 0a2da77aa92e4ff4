//! The server as its clients see it: HTTP, server-sent events, WebSocket, on a free port, with a script for a model.

mod app;
mod bad_input;
mod described;
mod http;
mod native;
mod origins;
mod rest;
mod socket;
mod socket_faults;
mod sse;
mod waiting;
mod wire;
