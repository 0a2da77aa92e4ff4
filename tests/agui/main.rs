//! AG-UI both ways: inputs as front ends send them, and events as the official schema, another implementation and the stock
//! clients' rules want them.

mod checker;
mod conversation;
mod frames;
mod inbound;
mod outbound;
mod schema;
mod streams;
