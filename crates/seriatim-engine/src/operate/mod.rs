//! Functions for operators of a server: audits, the doctor, the fence of restored copies, and the local state of partitions.

pub mod audit;
pub mod doctor;
pub(crate) mod fence;
pub mod local;
pub(crate) mod unfence;
