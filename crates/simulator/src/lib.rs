//! the whole system under seeds and faults
