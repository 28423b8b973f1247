//! task slots, ready queues, dispatch, completion, reclaim
