//! clock, topology as data, threads, virtual time
