//! The pure engine, from outside: scenarios as files, laws over made-up front ends, real faults of others as cases, records on the
//! wire.

mod arrivals;
mod bounds;
mod cases;
mod cells;
mod compaction;
mod decisions;
mod forks;
mod front_ends;
mod jobs;
mod laws;
mod model;
mod room;
mod scenarios;
mod snapshots;
mod talk;
mod told;
mod turns;
mod wire;
mod worker;
