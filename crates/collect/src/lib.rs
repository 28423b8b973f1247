//! buffer pools, drain, reconcile, recover, segment writing
