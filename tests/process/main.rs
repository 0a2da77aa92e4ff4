//! The real program as a process of its own: killed at any point, counted by its system calls, stopped in order.

mod arrivals;
mod canary;
mod chat;
mod cli;
mod counts;
mod crash;
mod dialled;
mod echo;
mod exposure;
mod full;
mod gateway;
mod metrics;
mod readme;
mod rules;
mod sockets;
mod stalled;
mod stop;
mod terminal;
mod transfer;
