//! The production server inside turmoil.
