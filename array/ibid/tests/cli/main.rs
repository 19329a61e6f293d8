//! The program as people and scripts meet it: what it prints, what it answers to mistakes, how it ends.

mod array;
mod commands;
mod data;
mod fsck;
mod host;
mod lifecycle;
mod snapshots;
