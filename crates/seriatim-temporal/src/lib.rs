//! Seriatim's workflows on a Temporal cluster.
#![forbid(unsafe_code)]
