//! the run directory, readers of our and foreign formats, one Trace model
