//! What those who operate a server ask of it.

pub mod audit;
pub mod doctor;
pub(crate) mod fence;
pub(crate) mod unfence;
