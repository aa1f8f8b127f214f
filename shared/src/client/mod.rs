//! The recovery engine: everything a client must get right about links, sends and state, as one
//! pure state machine.
