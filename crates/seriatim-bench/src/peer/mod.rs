//! Those beside whom more than one suite measures.

mod bare_file;

pub(crate) use bare_file::BareFile;
