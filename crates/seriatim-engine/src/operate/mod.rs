//! Functions for operators of a server: audits, the doctor, and the fence of restored copies.

pub mod audit;
pub mod doctor;
pub(crate) mod fence;
pub(crate) mod unfence;
