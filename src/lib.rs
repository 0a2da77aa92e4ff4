//! Headwater: an AG-UI gateway with a conversation engine inside.
//!
//! The code, in layer order (`tests/layers.rs` holds who may import whom):
//!
//! - [`ids`], [`clock`], [`meters`]: names of things; the only reader of the clock; what is counted.
//! - [`protocol`]: plain data that several layers speak.
//! - [`engine`]: pure; decides what is recorded and derives what is still to be done.
//! - [`draw`]: a tree as text.
//! - [`agui`]: pure; translates between AG-UI and the protocol.
//! - [`service`]: what everything has in common that is reached over HTTP.
//! - [`sse`], [`store`], [`provider`], [`worker`]: adapters towards logs, models, and who decides for an agent.
//! - [`runtime`]: does what the engine decides.
//! - [`web`]: the routes.
//! - [`cli`]: commands other than `serve`.
//! - [`config`], [`telemetry`], [`app`]: putting it together.

pub mod agui;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod draw;
pub mod engine;
pub mod ids;
pub mod meters;
pub mod protocol;
pub mod provider;
pub mod runtime;
pub mod service;
pub mod sse;
pub mod store;
pub mod telemetry;
pub mod web;
pub mod worker;
