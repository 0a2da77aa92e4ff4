//! The pure engine, from outside: scenarios as files, laws over made-up front ends, real faults of others as cases, records on the
//! wire.

mod bounds;
mod cases;
mod front_ends;
mod laws;
mod scenarios;
mod talk;
mod turns;
mod wire;
