//! The REST server: the array's administration over HTTPS, in the dialect of [`api`].
//!
//! One connection is one task; a request is authenticated and read there and then answered on a blocking thread, since
//! a change of the catalogue waits for the engine's log.
#![forbid(unsafe_code)]

mod admins;
mod alerts;
mod app;
mod arrays;
mod call;
mod connections;
mod error;
mod filter;
mod hosts;
mod limiter;
mod listing;
mod login;
mod query;
mod router;
mod server;
mod session;
mod snapshots;
mod space;
mod tls;
mod token;
mod volumes;

pub use app::{App, Growth};
pub use server::{ServeError, Server};
pub use space::COUNT_PART;
pub use tls::{Identity, IdentityError};
pub use token::{ADMIN, ADMIN_TOKEN_FILE, TokenError, ensure_admin, new_admin_token};

#[cfg(test)]
mod tests;
