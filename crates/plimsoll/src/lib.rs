//! a dataflow task runtime for tensors with a lossless flight recorder
