//! The real program as a process of its own: killed at any point, counted by its system calls, stopped in order.

mod counts;
mod crash;
mod gateway;
mod stop;
