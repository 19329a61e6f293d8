//! Errors of links, in words for the administrator.

use crate::distance::DistanceError;
use crate::key::MistypedKey;
use std::io;
use thiserror::Error;

/// The link was not made, or an action on it failed.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The text is not an address.
    #[error("'{0}' is not an address: write HOST, HOST:PORT or [IPv6]:PORT")]
    Address(String),
    /// The name of the other machine is unknown.
    #[error("cannot find '{0}': {1}")]
    Resolve(String, io::Error),
    /// No TCP connection.
    #[error("cannot connect to {0}: {1}; check the address, and that the other array serves with --link")]
    Connect(String, io::Error),
    /// The other side is silent.
    #[error("{0} does not answer in time; check that it is the --link address of an array")]
    TimedOut(String),
    /// The other side speaks another protocol.
    #[error("{0} is not the link of an array ({1}); give the --link address of the other array")]
    NotALink(String, String),
    /// The certificate is not the pinned one.
    #[error("{0} has another certificate than the connected array: it is another array, or its link.pem was replaced")]
    WrongCertificate(String),
    /// The other array refused, in its words.
    #[error("the other array refused: {0}")]
    Refused(String),
    /// The other array broke the rules of the protocol.
    #[error("the other array broke the protocol: {0}")]
    Protocol(String),
    /// The connection ended.
    #[error("the connection ended")]
    Ended,
    /// The key is not a key.
    #[error(transparent)]
    Key(#[from] MistypedKey),
    /// The other array does not have the connection key.
    #[error("the array at {0} could not prove that it has the connection key; nothing was connected")]
    Unproved(String),
    /// The two ends are one array.
    #[error("an array cannot be connected to itself")]
    Itself,
    /// The two arrays are connected.
    #[error("array {0} is already connected; disconnect it first to connect it again")]
    AlreadyConnected(String),
    /// A name would be ambiguous.
    #[error("two arrays would have the name {0}; rename one of them with `ibid array set --name`")]
    NameTaken(String),
    /// Another array than expected is at the address.
    #[error("the array at the address is {found}, not {expected}; nothing was connected")]
    OtherName {
        /// The name that was given.
        expected: String,
        /// The name of the array.
        found: String,
    },
    /// The limit of connections.
    #[error("limit reached: an array has at most {0} connections to other arrays")]
    TooMany(usize),
    /// No connection has this name.
    #[error("Array connection does not exist.")]
    NoSuch,
    /// The array has no listener.
    #[error("this array does not listen for other arrays; start it with --link ADDR:PORT")]
    NotListening,
    /// The other array connects; this one does not know its address.
    #[error("array {0} makes the connection; change the address there")]
    NotTheConnector(String),
    /// The link is down.
    #[error("the link to {0} is down: {1}")]
    Down(String, String),
    /// One link test at a time.
    #[error("a link test with {0} is already running")]
    TestRunning(String),
    /// The distance cannot be simulated.
    #[error(transparent)]
    Distance(#[from] DistanceError),
    /// The file of the connections.
    #[error("cannot store the connection: {0}")]
    Store(io::Error),
    /// The operating system has no randomness, or TLS cannot be used.
    #[error("links cannot be used: {0}")]
    System(String),
}
