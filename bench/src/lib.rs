//! bench: see ARCHITECTURE.md.
