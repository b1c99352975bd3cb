//! registry+v1 bundles.
