//! Installed ones that are asked for what cannot be had.
