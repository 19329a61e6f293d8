//! Login and text parameters: `key=value` pairs and their negotiation (RFC 7143 6).

mod key;
mod negotiation;
mod pairs;

pub(crate) use key::name;
pub(crate) use negotiation::{NOT_UNDERSTOOD, Negotiation, REJECT, is_operational, parse_segment_length, split_list};
#[cfg(test)]
pub(crate) use pairs::parse;
pub(crate) use pairs::{Assembler, Pairs, TextError, encode, encode_pairs, parse_records};

#[cfg(test)]
mod tests;
