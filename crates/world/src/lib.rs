//! world: see ARCHITECTURE.md.
