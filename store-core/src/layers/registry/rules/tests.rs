//! Tests of the rules of the registry.
