//! catalog: see ARCHITECTURE.md.
