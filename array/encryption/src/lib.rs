//! Encryption of an array at rest: the key, and a drive that encrypts what the engine writes.
//!
//! Everything after the superblock area is encrypted with AES-256 in XTS mode (IEEE 1619): the log,
//! metadata and data. The superblocks, the owner block and the key block stay readable, so that
//! programs without the key recognise the array and its owner. They hold sizes and positions, and
//! no data of hosts.
//!
//! A random key of 256 bits encrypts the array, and never changes. The key block has it, wrapped in
//! a key that Argon2id derives from a passphrase, so the passphrase can change in a moment.
//! `docs/format.md` describes both byte by byte.
//!
//! XTS hides contents. It does not authenticate them: a program that can write to the drive can
//! make blocks unreadable or return them to an earlier state. The checksums of the array detect
//! accidents.
#![forbid(unsafe_code)]

mod cipher;
mod disk;
mod key;
mod key_blocks;

pub use disk::EncryptedDisk;
pub use key::{ArrayKey, Passphrase, PassphraseError, UnlockError};
pub use key_blocks::KeyBlocks;
