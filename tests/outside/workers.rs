//! Workers from outside: a supervisor is given orders as relay gives them, for programs that a test writes.

#![cfg(target_os = "linux")]

mod attached;
mod doors;
mod ends;
mod logs;
mod scene;
mod starter;
mod starts;
