//! scsi: see ARCHITECTURE.md.
