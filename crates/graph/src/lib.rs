//! tensors, views, overlap, tensormap and dependency inference
