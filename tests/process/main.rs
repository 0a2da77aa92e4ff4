//! The real program as a process of its own: killed at any point, counted by its system calls, stopped in order.

mod chat;
mod cli;
mod counts;
mod crash;
mod exposure;
mod gateway;
mod readme;
mod rules;
mod stop;
mod terminal;
mod transfer;
