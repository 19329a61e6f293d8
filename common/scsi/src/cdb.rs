//! Command descriptor blocks: conversion between bytes and [`Command`], driven by one table.

mod command;
mod decode;
mod document;
mod table;

pub use command::{
    ByteCheck, CacheRange, CdbSize, Command, CopyResults, DataPhase, LogSense, ModeSense, PageControl, ReportOpcodes,
    ReportingOptions, SelectReport, StartStop, Transfer, Verification, WriteSame,
};
pub use document::commands_markdown;
pub use table::{COMMANDS, CommandDefinition, Timeouts, commands_of};

use crate::sense::{Sense, asc};

/// A CDB as carried by an iSCSI SCSI Command PDU: 16 bytes, padded with zeros (RFC 7143 11.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cdb(pub [u8; 16]);

impl Cdb {
    /// Parses a CDB. The error is the sense data for the host: unknown operation code or service
    /// action, reserved bit, or field out of range, with a pointer to the field.
    #[inline]
    pub fn parse(bytes: &[u8; 16]) -> Result<Command, Sense> {
        match table::find(bytes) {
            Some(definition) => definition.parse(bytes),
            None => Err(Self::unknown(bytes[0])),
        }
    }

    #[cold]
    fn unknown(opcode: u8) -> Sense {
        if commands_of(opcode).is_empty() {
            Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE).at_cdb(0, None)
        } else {
            Sense::invalid_cdb_field(1, Some(4))
        }
    }

    /// Returns the standard's name of the command, for logs and counters.
    pub fn name(&self) -> Option<&'static str> {
        table::find(&self.0).map(|definition| definition.name)
    }

    /// OPERATION CODE.
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }
}

impl std::fmt::Debug for Cdb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cdb(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests;
