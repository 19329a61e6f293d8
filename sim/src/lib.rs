//! sim: see ARCHITECTURE.md.
