//! The tests of the core through its public interface.

mod document;
mod document_bad_input;
mod document_crash;
mod document_faults;
mod document_files;
mod document_foreign;
mod document_readers;
mod faulty_fs;
mod permissions;
mod roles;
mod scratch;
mod versions;
