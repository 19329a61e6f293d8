//! client: see ARCHITECTURE.md.
