//! orchestrator, scopes, ring sizing, run lifecycle, diagnosis
