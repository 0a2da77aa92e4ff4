//! The pure engine, from outside: scenarios as files, laws over made-up front ends, real faults of others as cases, records on the
//! wire.

mod arrivals;
mod bounds;
mod carried;
mod cases;
mod cells;
mod compaction;
mod decisions;
mod forks;
mod front_ends;
mod interrupts;
mod jobs;
mod laws;
mod model;
mod relayed;
mod room;
mod scenarios;
mod snapshots;
mod states;
mod talk;
mod told;
mod turns;
mod wire;
mod worker;
