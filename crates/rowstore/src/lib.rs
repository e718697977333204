//! rowstore
